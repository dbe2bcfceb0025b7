"""The stream gate: buffers an attempt's events until its first content.

A hop that fails before its first content must have sent nothing to the client, so that the next hop
can take over. Start-up notices, reasoning and quota readings are therefore held. The first
non-blank text or tool call opens the gate; after that all events pass. Without streaming, only the
end of the answer opens it.
"""

from __future__ import annotations

from olp.events import CallStarted, Done, Event, Reasoning, Text


class Gate:
    """The gate of one attempt. Once `open`, it stays open."""

    def __init__(self, *, streaming: bool, reasoning_opens: bool = False) -> None:
        self._streaming = streaming
        self._reasoning_opens = reasoning_opens
        self._held: list[Event] = []
        self.open = False
        self.has_text = False
        self.has_call = False

    def __repr__(self) -> str:
        return f"Gate({'open' if self.open else f'{len(self._held)} held'})"

    def offer(self, event: Event) -> tuple[Event, ...]:
        """Add one event; returns the events that may pass now."""
        if isinstance(event, Text) and event.text.strip():
            self.has_text = True
        if isinstance(event, CallStarted):
            self.has_call = True
        if self.open:
            return (event,)
        self._held.append(event)
        return self.release() if self._decides(event) else ()

    def release(self) -> tuple[Event, ...]:
        """Open the gate; returns the held events."""
        self.open = True
        held, self._held = tuple(self._held), []
        return held

    def _decides(self, event: Event) -> bool:
        match event:
            case Done():
                return True
            case Text(text):
                return self._streaming and bool(text.strip())
            case CallStarted():
                return self._streaming
            case Reasoning(text):
                return self._streaming and self._reasoning_opens and bool(text.strip())
            case _:
                return False
