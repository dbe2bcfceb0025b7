"""Resolves a requested model name to a chain of hops.

A model id resolves only to hops that serve exactly that model. Another model may answer only in a
chain that the owner configured; without configuration there is one chain, `auto`, over the CLIs
that were found.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from olp.config import ChainConfig, Config, Thresholds
from olp.errors import RequestError
from olp.model import MAX_HOPS, Field, Hop, is_model_id

AUTO = "auto"

SHOWN_CHAINS = 5
"""How many chains the error for an unknown model lists."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a chain is walked; times in seconds. See the options of [routing]."""

    opening_s: float = 240.0
    gate_s: float = 30.0
    gate: Literal["content", "reasoning"] = "content"
    gate_action: Literal["commit", "advance"] = "commit"
    deadline_s: float = 540.0
    on_auth_missing: Literal["stop", "advance"] = "stop"
    json: Literal["stream", "checked"] = "stream"
    try_open_circuits: bool = True


@dataclass(frozen=True, slots=True)
class Chain:
    """A named sequence of hops, in the order tried. `limits` are the chain's own thresholds, which
    override those of a provider."""

    name: str
    hops: tuple[Hop, ...]
    policy: Policy = field(default_factory=Policy)
    limits: Thresholds | None = None

    def without_substitution(self) -> Chain:
        """Only the hops of the first hop's model."""
        same = tuple(hop for hop in self.hops if hop.model == self.hops[0].model)
        return replace(self, hops=same)


class Catalogue:
    """All model names that clients may request.

    `models` maps each usable provider, in order of preference, to its known model ids, the default
    first.
    """

    def __init__(self, config: Config, models: Mapping[str, Sequence[str]]) -> None:
        self._config = config
        self._policy = _policy(config)
        self.models = {name: tuple(ids) for name, ids in models.items()}
        self.chains = {name: self._configured(name, chain) for name, chain in config.chains.items()}
        defaults = tuple(Hop(name, ids[0]) for name, ids in self.models.items() if ids)
        if AUTO not in self.chains and defaults:
            self.chains[AUTO] = Chain(AUTO, defaults[:MAX_HOPS], self._policy)

    def _configured(self, name: str, config: ChainConfig | Sequence[str]) -> Chain:
        if not isinstance(config, ChainConfig):
            return Chain(name, tuple(_hop(text) for text in config), self._policy)
        own = {
            "gate": config.gate,
            "gate_action": config.gate_action,
            "on_auth_missing": config.on_auth_missing,
        }
        policy = replace(self._policy, **{k: v for k, v in own.items() if v is not None})  # type: ignore[arg-type]
        return Chain(name, tuple(_hop(text) for text in config.hops), policy, limits=config)

    def with_models(self, told: Mapping[str, Sequence[str]]) -> Catalogue:
        """A copy with the models that the CLIs reported appended."""
        merged = {
            name: tuple(dict.fromkeys((*ids, *told.get(name, ()))))
            for name, ids in self.models.items()
        }
        return Catalogue(self._config, merged)

    def resolve(self, name: str) -> Chain:
        """The chain for `name`. Raises RequestError 404 `model_not_found`."""
        if chain := self.chains.get(name):
            return chain
        hops = self._direct(name) or self._serving(name)
        if hops:
            return Chain(name, hops, self._policy)
        near = self.near(name)
        chains = " or ".join(list(self.chains)[:SHOWN_CHAINS])
        hint = f"Did you mean {near}? " if near else f"Ask for {chains}. " if chains else ""
        shown = name if is_model_id(name) else "(not a model id)"
        raise RequestError(
            f"The model {shown!r} does not exist here. {hint}GET /v1/models lists every name.",
            status=404,
            code="model_not_found",
            param=Field.MODEL,
        )

    def near(self, name: str) -> str | None:
        """The closest known name, if any, for "did you mean". Its digits must be equal: another
        number is another model, not a typo."""
        known = {one.lower(): one for one in reversed(list(self.names()))}
        same = (known.get(part.lower()) for part in (name, name.rpartition("/")[2]))
        if found := next(filter(None, same), None):
            return found
        close = difflib.get_close_matches(name.lower(), list(known), n=3, cutoff=0.75)
        return next((known[one] for one in close if _digits(one) == _digits(name)), None)

    def knows(self, name: str) -> bool:
        """Whether `name` resolves."""
        return bool(name in self.chains or self._direct(name) or self._serving(name))

    def _direct(self, name: str) -> tuple[Hop, ...]:
        hop = Hop.parse(name)
        return (hop,) if hop and hop.provider in self.models else ()

    def _serving(self, model: str) -> tuple[Hop, ...]:
        hops = tuple(Hop(name, model) for name, ids in self.models.items() if model in ids)
        return hops[:MAX_HOPS]

    def names(self) -> Iterable[str]:
        """All names, each once: chains, then PROVIDER/MODEL, then bare model ids."""
        seen = dict.fromkeys(self.chains)
        seen |= dict.fromkeys(f"{p}/{m}" for p, ids in self.models.items() for m in ids)
        seen |= dict.fromkeys(m for ids in self.models.values() for m in ids)
        return seen


def _digits(name: str) -> str:
    return "".join(filter(str.isdecimal, name))


def _hop(text: str) -> Hop:
    hop = Hop.parse(text)
    assert hop is not None, "the configuration was checked when it was read"
    return hop


def _policy(config: Config) -> Policy:
    routing = config.routing
    return Policy(
        opening_s=routing.opening_s,
        gate_s=routing.gate_s,
        gate=routing.gate,
        gate_action=routing.gate_action,
        deadline_s=routing.deadline_s,
        on_auth_missing=routing.on_auth_missing,
        json=routing.json,
        try_open_circuits=config.breaker.all_open == "try",
    )
