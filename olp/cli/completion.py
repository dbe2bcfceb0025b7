"""`olp completion`: print a shell completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

HOW = {
    "bash": 'eval "$(olp completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(olp completion zsh)"   # in ~/.zshrc, after compinit',
    "fish": "olp completion fish > ~/.config/fish/completions/olp.fish",
}


@click.command("completion", epilog="  ".join(["Usage:", *HOW.values()]))
@click.argument("shell", type=click.Choice(list(HOW)))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None
    complete = kind(context.find_root().command, {}, "olp", "_OLP_COMPLETE")
    # Not `source()`, which runs bash to check its version.
    click.echo(complete.source_template % complete.source_vars())
