"""From a name to hops: exactly that model, or what the owner wrote."""

from __future__ import annotations

from typing import Any

import pytest

from olp.config import ChainConfig, Config, RoutingConfig
from olp.core.routing.chains import AUTO, Catalogue, Chain
from olp.errors import RequestError
from olp.model import MAX_HOPS, Hop, is_model_id

MODELS = {
    "claude": ("sonnet", "opus"),
    "codex": ("gpt-5.5", "shared"),
    "vibe": ("medium", "shared"),
    "fourth": ("x", "shared"),
    "fifth": ("shared",),
}


def hops(chain: Chain) -> list[str]:
    return [str(hop) for hop in chain.hops]


def test_J1_without_configuration_auto_is_the_only_chain_of_several_models() -> None:
    catalogue = Catalogue(Config(), {name: MODELS[name] for name in ("claude", "codex", "vibe")})
    assert list(catalogue.chains) == [AUTO]
    assert hops(catalogue.resolve("auto")) == ["claude/sonnet", "codex/gpt-5.5", "vibe/medium"]


def test_J1_auto_has_no_more_hops_than_a_chain_may_have() -> None:
    assert len(Catalogue(Config(), MODELS).resolve("auto").hops) == MAX_HOPS


def test_J1_no_cli_no_auto() -> None:
    catalogue = Catalogue(Config(), {})
    assert not catalogue.chains
    with pytest.raises(RequestError):
        catalogue.resolve("auto")


def test_J1_the_owners_auto_wins() -> None:
    catalogue = Catalogue(Config(chains={"auto": ("vibe/medium",)}), MODELS)
    assert hops(catalogue.resolve("auto")) == ["vibe/medium"]


def test_J1_a_hop_is_directly_addressable_and_has_no_fallback() -> None:
    catalogue = Catalogue(Config(), MODELS)
    assert hops(catalogue.resolve("codex/gpt-5.5")) == ["codex/gpt-5.5"]
    assert hops(catalogue.resolve("codex/new-model")) == ["codex/new-model"]


def test_J1_a_bare_model_id_resolves_to_hops_of_exactly_that_model() -> None:
    catalogue = Catalogue(Config(), MODELS)
    assert hops(catalogue.resolve("opus")) == ["claude/opus"]
    assert hops(catalogue.resolve("shared")) == ["codex/shared", "vibe/shared", "fourth/shared"]


def test_J1_another_model_answers_only_where_the_owner_wrote_it_under_a_name() -> None:
    config = Config(chains={"house": ("claude/sonnet", "codex/gpt-5.5")})
    catalogue = Catalogue(config, MODELS)
    for name in catalogue.names():
        models = {hop.model for hop in catalogue.resolve(name).hops}
        assert len(models) == 1 or name in ("house", AUTO)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sonet", "Did you mean sonnet?"),
        ("claude/", "(not a model id)"),
        ("nobody/sonnet", "Did you mean sonnet?"),
        ("openai/GPT-5.5", "Did you mean gpt-5.5?"),
        ("Claude/Sonnet", "Did you mean claude/sonnet?"),
        ("gpt-55", "Did you mean gpt-5.5?"),
        ("AUTO", "Did you mean auto?"),
        ("gpt-4o", "Ask for auto. GET /v1/models"),
        ("gpt-5.4", "Ask for auto. GET /v1/models"),
        ("claude-3-opus", "Ask for auto."),
        ("zzzzzz", "/v1/models"),
        ("", "/v1/models"),
        ("-rf", "/v1/models"),
        ("claude/--settings=x", ""),
        ("a\r\nb: c", "(not a model id)"),
        ("claude/../x", ""),
    ],
)
def test_K_an_unknown_model_is_a_404_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(RequestError) as caught:
        Catalogue(Config(), MODELS).resolve(name)
    error = caught.value
    assert (error.status, error.code, error.param) == (404, "model_not_found", "model")
    assert hint in error.message
    assert "\n" not in error.message


def test_K_an_unknown_model_is_told_the_chains_there_are() -> None:
    chains: dict[str, Any] = {f"c{n}": ("claude/sonnet",) for n in range(9)}
    with pytest.raises(RequestError) as caught:
        Catalogue(Config(chains=chains), MODELS).resolve("gpt-4o")
    assert "Ask for c0 or c1 or c2 or c3 or c4. GET" in caught.value.message


@pytest.mark.parametrize(
    "text", ["-x", "--model", "-", "", "a b", "a\n", "\0", "../x", "a" * 129, "é"]
)
def test_M1_what_could_look_like_a_flag_is_no_model_id(text: str) -> None:
    assert not is_model_id(text)
    assert Hop.parse(f"claude/{text}") is None


@pytest.mark.parametrize("text", ["a", "gpt-5.5", "claude-sonnet-5[1m]", "org/model:tag@1", "x+y"])
def test_J1_real_model_ids(text: str) -> None:
    assert is_model_id(text)
    assert Hop.parse(f"codex/{text}") == Hop("codex", text)


def test_J3_without_substitution_only_hops_of_the_first_model_stay() -> None:
    config = Config(chains={"mix": ("codex/shared", "claude/sonnet", "vibe/shared")})
    chain = Catalogue(config, MODELS).resolve("mix")
    assert hops(chain.without_substitution()) == ["codex/shared", "vibe/shared"]
    assert chain.without_substitution().policy == chain.policy


def test_J3_without_substitution_an_honest_chain_stays_as_it_is() -> None:
    chain = Catalogue(Config(), MODELS).resolve("shared")
    assert chain.without_substitution() == chain


def test_J5_every_name_is_listed_once_chains_first() -> None:
    config = Config(chains={"house": ("claude/sonnet",)})
    names = list(Catalogue(config, MODELS).names())
    assert names[:2] == ["house", "auto"]
    assert len(names) == len(set(names))
    assert {"claude/sonnet", "fifth/shared", "opus", "shared"} <= set(names)


def test_C3_a_chain_takes_its_policy_from_routing_and_its_own_options_win() -> None:
    config = Config(
        routing=RoutingConfig(opening_s=11, gate_s=5, gate="reasoning", deadline_s=77),
        chains={
            "plain": ("claude/sonnet",),
            "own": ChainConfig(
                hops=("claude/sonnet",),
                gate="content",
                gate_action="advance",
                on_auth_missing="advance",
            ),
        },
    )
    catalogue = Catalogue(config, MODELS)
    plain, own = catalogue.resolve("plain").policy, catalogue.resolve("own").policy
    assert (plain.opening_s, plain.gate_s, plain.deadline_s) == (11, 5, 77)
    assert (plain.gate, plain.gate_action, plain.on_auth_missing) == ("reasoning", "commit", "stop")
    assert (own.opening_s, own.deadline_s) == (11, 77)
    assert (own.gate, own.gate_action, own.on_auth_missing) == ("content", "advance", "advance")
    assert catalogue.resolve("sonnet").policy == plain
