"""Renders the commented template `olp.toml` and the reference docs/config.md.

Both are generated from the schema, so that no key can be undocumented. Nothing here touches a file:
`scripts/generate` writes them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from olp.config.options import Option, Section, sections, toml

WIDTH = 100
"""Columns of the template."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A provider in the template: its title, and known model ids."""

    name: str
    title: str
    models: tuple[str, ...]


# --- the template ------------------------------------------------------------------------------

_HEAD = """\
OLP's configuration: every key, with its default.

All keys are optional: without a file, OLP uses the CLIs that it finds. To change a setting, copy
this file to the path that `olp config path` prints, and uncomment a key: the lines whose # is not
followed by a space. `olp config check` validates the file, `olp config show` prints the source of
each value. In paths, `~` is your home folder, and relative paths start at the folder of this file.
Keys of tables with one word in brackets can also be set in the environment, as OLP_SERVER_PORT.
Flags override the environment, and the environment overrides this file."""

_CHAINS = """\
A chain is a model name for clients with at most three hops (PROVIDER/MODEL), tried in order until
one answers. `auto`, unless you define it, tries the CLIs found on this machine in order. A
PROVIDER/MODEL can always be requested directly."""

_LONG = "The long form of a chain, with its own settings. Only `hops` is required:"

_SAME = "The same keys as in [providers.{first}]."


def template(samples: Sequence[Sample]) -> str:
    """`olp.toml`: valid as it is, and with all keys uncommented."""
    known = sections()
    lines = list(_comment(_HEAD))
    for name, section in known.items():
        if name == "chains":
            lines += _chains(section, samples)
        elif name == "providers":
            for sample in samples:
                lines += _provider(sample, section, known["routing"], first=samples[0])
        else:
            lines += ["", *_comment(section.about), f"[{name}]"]
            lines += _keys(section.options, {})
    return "\n".join(lines) + "\n"


def _chains(section: Section, samples: Sequence[Sample]) -> Iterator[str]:
    hops = [f"{sample.name}/{sample.models[0]}" for sample in samples]
    yield from ("", *_comment(_CHAINS), "[chains]", f"#everyday = {toml(hops)}", "")
    yield from (*_comment(_LONG), "#[chains.patient]")
    yield from _keys(section.options, {"hops": hops})


def _provider(
    sample: Sample, section: Section, routing: Section, *, first: Sample
) -> Iterator[str]:
    explain = sample is first
    about = section.about if explain else _SAME.format(first=first.name)
    examples = {option.name: option.default for option in routing.options}
    examples["default_model"] = sample.models[0]
    yield from ("", *_comment(f"{sample.title}. {about}"), f"[providers.{sample.name}]")
    yield from _keys(section.options, examples, explain=explain)


def _keys(
    options: Iterable[Option], examples: Mapping[str, Any], *, explain: bool = True
) -> Iterator[str]:
    """Each key with its default; without one, with an example or a possible value."""
    for option in options:
        if explain:
            yield from _comment(_explained(option))
        value = option.default
        if value is None:
            value = examples.get(option.name, option.possible)
        yield f"#{option.name} = {toml(value)}"


def _explained(option: Option) -> str:
    choice = option.kind if option.kind.startswith('"') else ""
    has_default = option.default is not None or option.required or "unset" in option.about
    more = "; ".join(
        part for part in (choice, option.bounds, "" if has_default else "unset") if part
    )
    return f"{option.about} ({more})" if more else option.about


def _comment(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield "#"
        joined = " ".join(paragraph.split())
        yield from (f"# {line}" for line in textwrap.wrap(joined, WIDTH - 2))


# --- the reference -----------------------------------------------------------------------------

_REFERENCE = """\
# Configuration

<!-- Made by scripts/generate from olp/config/schema.py: do not edit. -->

OLP reads one TOML file; `olp config path` prints its location. The file is optional, and every key
has a default. An unknown key, a wrong type or an invalid value prevents the start; all errors are
reported together, each with file, line and a suggestion. `olp config check` reports them without
starting, and also values that are valid but probably wrong, such as a threshold of 0.9 %.

Flags override the environment, which overrides the file. Keys of tables without a `NAME` can be set
in the environment: `OLP_` + section + `_` + key, such as `OLP_SERVER_PORT=4600`. Durations are in
seconds. In paths, `~` is your home folder, and relative paths start at the folder of the file.
[`olp.toml`](../olp.toml) is a complete template.
"""

_SHORT_CHAIN = """
`[chains]` takes `NAME = ["PROVIDER/MODEL", …]`, or this table for one chain.
"""


def reference() -> str:
    """The text of docs/config.md."""
    parts = [_REFERENCE]
    for name, section in sections().items():
        title = f"[{name}.NAME]" if section.named else f"[{name}]"
        more = _SHORT_CHAIN if name == "chains" else ""
        parts.append(f"\n## `{title}`\n\n{section.about}\n{more}\n")
        parts.append("| key | type | default | meaning |\n|---|---|---|---|\n")
        parts += [_row(option) for option in section.options]
    return "".join(parts)


def _row(option: Option) -> str:
    kind = f"{option.kind}, {option.bounds}" if option.bounds else option.kind
    unset = "must be set" if option.required else "unset"
    default = unset if option.default is None else f"`{toml(option.default)}`"
    about = option.about.replace("|", "\\|")
    return f"| `{option.name}` | {kind} | {default} | {about} |\n"
