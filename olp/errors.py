"""The exceptions that OLP raises.

Vendor failures are not among them: those are events (`olp.events.Failed`) for the walk. An
exception means that a person must change something: a file, a flag, a request.
"""

from __future__ import annotations

from collections.abc import Sequence


class OLPError(Exception):
    """An error that a person can fix; `str(error)` is one line."""


class ConfigError(OLPError):
    """The configuration is invalid; `str(error)` has one line per problem.

    `where` is the `file:line` of the first, if known, or the name of the flag or variable.
    """

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where

    @classmethod
    def of(cls, problems: Sequence[tuple[str, str]]) -> ConfigError:
        """One error for all `problems`, each a (message, where) pair."""
        error = cls(*problems[0])
        error.args = ("\n".join(f"{where}: {message}" for message, where in problems),)
        return error


class StartError(OLPError):
    """The server cannot start: a port in use, a folder that is not writable."""


class RequestError(OLPError):
    """A request that is rejected without asking any provider.

    `status` is the HTTP status, `code` the public API's error code, `param` the path of the
    offending field (`messages[2].content`), or a `Field`, which each dialect renames.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        code: str | None = None,
        param: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.param = param
        self.headers = headers


def unusable(path: str, reason: str) -> RequestError:
    """A RequestError 400 for an invalid value at `path` of the request."""
    return RequestError(f"{path}: {reason}", code="invalid_value", param=path)
