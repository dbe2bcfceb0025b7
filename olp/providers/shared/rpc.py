"""JSON-RPC requests of OLP's own: their ids, and which method a response belongs to."""

from __future__ import annotations

from typing import Any


class Requests:
    """The requests that wait for a response. Ids count from 1."""

    def __init__(self) -> None:
        self._last_id = 0
        self._methods: dict[int, str] = {}

    def new(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """A request with the next id."""
        self._last_id += 1
        self._methods[self._last_id] = method
        return {"id": self._last_id, "method": method, "params": params}

    def answered(self, id: Any) -> str:
        """The method of the request with this id, which is answered now; empty if there is none."""
        return self._methods.pop(id, "") if isinstance(id, int) else ""
