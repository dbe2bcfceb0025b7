"""The command `olp` and its table of subcommands, whose modules are imported on use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping

import click
from click.shell_completion import CompletionItem

from olp import __version__
from olp.cli.groups import Group
from olp.errors import ConfigError, OLPError

COMMANDS: Mapping[str, tuple[str, str]] = {
    "serve": ("olp.cli.serve", "Start the server."),
    "keys": ("olp.cli.keys", "Manage API keys and their limits."),
    "doctor": ("olp.cli.doctor", "Check this machine and its CLIs, and show fixes."),
    "status": ("olp.cli.status", "Show the state of the running server and its providers."),
    "top": ("olp.cli.top", "Show the state of the running server live."),
    "quota": ("olp.cli.quota", "Show the remaining quota of every plan; lift a hold."),
    "usage": ("olp.cli.usage", "Show usage by person, model, provider or day."),
    "logs": ("olp.cli.logs", "Show the request log."),
    "why": ("olp.cli.why", "Show the trace of one request."),
    "chain": ("olp.cli.chain", "Show the hops of a chain or model name."),
    "connect": ("olp.cli.connect", "Show or write the configuration of a client."),
    "discover": ("olp.cli.discover", "List the OLP servers on the local network."),
    "cert": (
        "olp.cli.cert",
        "Create certificates for HTTPS, and show how devices trust them.",
    ),
    "service": ("olp.cli.service", "Run OLP in the background from boot."),
    "backup": ("olp.cli.backup", "Back up the configuration and the state."),
    "restore": ("olp.cli.restore", "Restore a backup."),
    "completion": ("olp.cli.completion", "Print a shell completion script."),
    "config": ("olp.cli.config", "Show, check and locate the configuration."),
}


class Commands(Group):
    """A group that imports a command's module when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completions from the table, so that the shell does not wait for the imports."""
        found = [
            CompletionItem(name, help=about)
            for name, (_, about) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="olp")
def cli() -> None:
    """One OpenAI-compatible endpoint for your AI subscriptions."""


def main() -> None:
    """Run the command line. User errors are printed as one line, with exit code 2."""
    try:
        cli()
    except ConfigError as error:
        click.echo("\n".join(f"olp: {line}" for line in str(error).splitlines()), err=True)
        sys.exit(2)
    except OLPError as error:
        click.echo(f"olp: {error}", err=True)
        sys.exit(2)
