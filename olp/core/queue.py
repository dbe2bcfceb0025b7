"""Who waits for a slot of a provider, and whose turn it is.

Persons take turns: after one of theirs was served, a person is the last in line, however many they
have waiting. So somebody with twenty requests delays somebody with one by one answer and not by
twenty. Whoever comes while others wait goes behind them, or the line would be for the polite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Ticket:
    """One place in a line. `wake` is called when it may be its turn."""

    provider: str
    person: str
    wake: Callable[[], None]


class Queue:
    """The lines of all providers. A person's tickets stand in the order in which they came; the
    persons stand in the order of their turns."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[str, list[Ticket]]] = {}

    def __repr__(self) -> str:
        lines = {p: {n: len(t) for n, t in line.items()} for p, line in self._lines.items()}
        return f"Queue({lines})"

    def waiting(self, provider: str) -> int:
        """How many wait for `provider`."""
        return sum(len(tickets) for tickets in self._lines.get(provider, {}).values())

    def join(self, provider: str, person: str, wake: Callable[[], None]) -> Ticket:
        """The last place of the person's own."""
        ticket = Ticket(provider, person, wake)
        self._lines.setdefault(provider, {}).setdefault(person, []).append(ticket)
        return ticket

    def first(self, provider: str) -> Ticket | None:
        """Whose turn it is."""
        line = self._lines.get(provider)
        return next(iter(line.values()))[0] if line else None

    def leave(self, ticket: Ticket, *, served: bool) -> None:
        """Give up a place; a person who was served goes to the end. The next one is woken, since
        what this one left may be there for it."""
        line = self._lines[ticket.provider]
        tickets = line[ticket.person]
        tickets.remove(ticket)
        if not tickets or served:
            del line[ticket.person]
        if tickets and served:
            line[ticket.person] = tickets
        if not line:
            del self._lines[ticket.provider]
        self.freed(ticket.provider)

    def freed(self, provider: str) -> None:
        """A slot of `provider` may be free."""
        if ticket := self.first(provider):
            ticket.wake()
