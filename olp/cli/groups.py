"""A command group that suggests the nearest command for an unknown one."""

from __future__ import annotations

import difflib

import click


class Group(click.Group):
    """A click group with suggestions for unknown names."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], known, n=1, cutoff=0.5)
            meant = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            ctx.fail(f"there is no command {args[0]!r}; {meant}")
        return super().resolve_command(ctx, args)
