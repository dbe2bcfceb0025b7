"""The environment of a CLI, from an allow-list of OLP's own."""

from __future__ import annotations

from collections.abc import Mapping

from olp.providers.base import ProviderContext, ProviderInfo

ALLOWED = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "NODE_EXTRA_CA_CERTS",
        "SYSTEMROOT",
    }
)
"""Names that every CLI gets from OLP's environment, plus `LC_*`. An allow-list, because a list of
names to remove would miss the next secret.
"""


def child_environment(
    context: ProviderContext, info: ProviderInfo, own: Mapping[str, str]
) -> dict[str, str]:
    """The whole environment of a CLI: the allowed names, its login, the provider's variables
    (`own`), and last the owner's `env` setting.
    """
    env = {
        name: value
        for name, value in context.environ.items()
        if name in ALLOWED or name.startswith("LC_") or name in info.passes
    }
    env.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    env["HOME"] = context.home
    return env | dict(own) | dict(context.config.env)


def login_link(context: ProviderContext, variable: str, folder: str, file: str) -> dict[str, str]:
    """The link to a CLI's login file in its private home. With `login = "own"` the file is OLP's;
    otherwise it is the user's, in the folder that `variable` names, or else in `folder` of the
    user's home.
    """
    users = context.environ.get(variable) or f"{context.home}/{folder}"
    kept = context.own_home if context.config.login == "own" else users
    return {f"home/{file}": f"{kept}/{file}"}
