"""Outgoing JSON-RPC requests: ids, and matching of responses to methods."""

from __future__ import annotations

from typing import Any


class Requests:
    """The requests without a response yet. Ids start at 1."""

    def __init__(self) -> None:
        self._last_id = 0
        self._methods: dict[int, str] = {}

    def new(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """A request with the next id."""
        self._last_id += 1
        self._methods[self._last_id] = method
        return {"id": self._last_id, "method": method, "params": params}

    def answered(self, id: Any) -> str:
        """Remove the request `id`; returns its method, empty if unknown."""
        return self._methods.pop(id, "") if isinstance(id, int) else ""
