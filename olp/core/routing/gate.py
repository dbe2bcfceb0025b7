"""The stream gate: what is held back until it is clear that this hop will answer.

A hop that dies before its first word must leave the client untouched, so that the next one can
serve as if nothing had been. So start-up notices, thinking and quota readings wait here. The first
real content opens the gate, a tool call as well as text; from then on everything passes untouched.
White space is no content: an answer that has nothing else is none. Without streaming only the end
of the answer opens it.
"""

from __future__ import annotations

from olp.events import CallStarted, Done, Event, Reasoning, Text


class Gate:
    """One attempt's gate. `open` never turns back to False."""

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
        """Take one event in, and get those that may pass now."""
        if isinstance(event, Text) and event.text.strip():
            self.has_text = True
        if isinstance(event, CallStarted):
            self.has_call = True
        if self.open:
            return (event,)
        self._held.append(event)
        return self.release() if self._decides(event) else ()

    def release(self) -> tuple[Event, ...]:
        """Open the gate, and get what was held."""
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
