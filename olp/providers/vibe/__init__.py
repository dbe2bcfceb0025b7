"""Mistral Vibe: `vibe -p` with streaming output, and `vibe-app-server`.

Its tools cannot be removed, only forbidden one by one, so an entry that shows a call of one ends
the process. See `tools` for conversations with tools of the client's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from olp.model import PRIVATE_DIR, Launch, Request
from olp.providers.base import Driver as BaseDriver
from olp.providers.base import ProviderContext, adapted
from olp.providers.shared.environment import child_environment, login_link
from olp.providers.shared.transcript import prompt_of
from olp.providers.vibe.answer import Driver
from olp.providers.vibe.config import ASK_FIRST, NEVER, NO_SYSTEM, Wanted, configuration, home
from olp.providers.vibe.info import INFO
from olp.providers.vibe.run import SOCKET
from olp.providers.vibe.session import VibeSession

_FLAGS = ("-p", "--output", "streaming", "--agent", "olp", "--output-dir", f"{PRIVATE_DIR}/out")

ONE_TURN = ("--max-turns", "1")
"""Without tools of the client's the model needs no second request."""

GRACE_S = 0.3
"""Seconds the CLI gets to exit when asked to: it would wait for the end of the answer in progress,
and keeps no state that an abrupt end could corrupt.
"""


class Vibe:
    """The provider: how to start the CLI."""

    info = INFO

    def launch(
        self, request: Request, model: str, context: ProviderContext, now: datetime
    ) -> tuple[Launch, Driver]:
        wanted = Wanted.by(request, model)
        config = configuration(wanted, context.config.config)
        launch = Launch(
            (*context.command, *_FLAGS, *ONE_TURN, *context.config.args),
            _environment(context),
            files=home(config, wanted.system or NO_SYSTEM, NEVER),
            links=_links(context),
            collect=("out/export.json",),
            grace_s=GRACE_S,
        )
        return launch, Driver(prompt_of(request), model, now=now)

    def session(
        self, context: ProviderContext, request: Request | None = None, model: str = ""
    ) -> tuple[Launch, VibeSession]:
        model = model or context.config.default_model or INFO.models[0]
        owner = context.config.config

        def configure(wanted: Wanted) -> Mapping[str, object]:
            return configuration(wanted, owner)

        first = Wanted.by(request, model) if request else Wanted(model)
        server = _beside(context.command[0], "vibe-app-server")
        launch = Launch(
            (server, *context.command[1:], "--multiplex"),
            _environment(context),
            files=home(configure(Wanted(model)), NO_SYSTEM, ASK_FIRST),
            links=_links(context),
            grace_s=GRACE_S,
            socket=SOCKET,
        )
        return launch, VibeSession(first, configure)

    def survey(self, context: ProviderContext) -> Sequence[tuple[Launch, BaseDriver]]:
        return ()  # it reports neither its models nor the remaining quota

    def probes(self, context: ProviderContext) -> Mapping[str, Launch]:
        env = _environment(context)
        return {
            "version": Launch(
                (*context.command, "--version"), env, {"user/.keep": b"", "tmp/.keep": b""}
            )
        }

    def mocked(self, context: ProviderContext, url: str) -> ProviderContext:
        server = {"name": "mock", "api_base": f"{url}/v1", "backend": "mistral"}
        models = [{"name": name, "provider": "mock", "alias": name} for name in INFO.models]
        config = {
            "providers": [server | {"api_key_env_var": "MISTRAL_API_KEY"}],
            "models": models,
            "vibe_base_url": url,
            "console_base_url": url,
        }
        return adapted(context, env={"MISTRAL_API_KEY": "dummy"}, config=config)


def _beside(program: str, name: str) -> str:
    """The program `name` in the folder of `program`."""
    folder, slash, _ = program.rpartition("/")
    return f"{folder}{slash}{name}"


def _environment(context: ProviderContext) -> dict[str, str]:
    own = {
        "VIBE_HOME": f"{PRIVATE_DIR}/home",
        "HOME": f"{PRIVATE_DIR}/user",
        "TMPDIR": f"{PRIVATE_DIR}/tmp",
    }
    return child_environment(context, INFO, own)


def _links(context: ProviderContext) -> dict[str, str]:
    return login_link(context, "VIBE_HOME", ".vibe", ".env")


PROVIDER = Vibe()
