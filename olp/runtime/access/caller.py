"""Who asks, and what they may ask for."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from olp.core.keys.key import Key
from olp.errors import RequestError
from olp.model import Field, Message, Request, Role


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. An owner sees everything, a member what is theirs. What is shared or kept goes by
    `id`; `key` is None where no key is needed."""

    id: str
    name: str
    owner: bool
    key: Key | None = None

    def may_ask(self, model: str) -> bool:
        """Whether `model`, the name of a chain or a model, may be asked for."""
        return self.key is None or self.key.may_ask(model)

    def check_model(self, model: str) -> None:
        """RequestError 403 if `model` may not be asked for."""
        if self.key is not None and not self.key.may_ask(model):
            raise RequestError(
                f"This key may ask for {', '.join(self.key.chains)}, and for nothing else.",
                status=403,
                code="chain_not_allowed",
                param=Field.MODEL,
                headers=(("x-should-retry", "false"),),
            )

    def with_prompt(self, request: Request) -> Request:
        """`request` with the key's system prompt before everything that the client says. It is a
        message like any other, and so a part of everything that tells two requests apart."""
        if self.key is None or not self.key.system_prompt:
            return request
        prompt = Message(Role.SYSTEM, self.key.system_prompt)
        return dataclasses.replace(request, messages=(prompt, *request.messages))


OWNER = Caller("owner", "owner", owner=True)
"""Whoever asks while no key is needed."""

LOCAL = Caller("local", "owner", owner=True)
"""The owner's own commands on this machine."""
