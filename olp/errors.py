"""The few exceptions OLP raises itself.

A vendor's failure is not here: it is an event (`olp.events.Failed`) that the walk along the chain
must look at. An exception means that a person has to change something: a file, a flag, a request.
"""

from __future__ import annotations

from collections.abc import Sequence


class OLPError(Exception):
    """Something a person can put right; `str(error)` is one line that says what."""


class ConfigError(OLPError):
    """The configuration cannot be used; `str(error)` has a line for each thing that is wrong.

    `where` is the first one's `file:line` as far as it is known, or the name of the flag or
    variable.
    """

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where

    @classmethod
    def of(cls, problems: Sequence[tuple[str, str]]) -> ConfigError:
        """One for all of `problems`, each a message and where."""
        error = cls(*problems[0])
        error.args = ("\n".join(f"{where}: {message}" for message, where in problems),)
        return error


class StartError(OLPError):
    """The server cannot start here: a taken port, a folder that cannot be written."""


class RequestError(OLPError):
    """A request that is answered without asking any provider.

    `status` is the HTTP status, `code` the machine-readable reason in the public API's own words,
    `param` the path of the offending field (`messages[2].content`), or a `Field` where
    no dialect has found it.
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
    """The 400 for what stands at `path` of a request and cannot be used."""
    return RequestError(f"{path}: {reason}", code="invalid_value", param=path)
