"""Who waits for a slot, and whose turn it is.

A request waits for the first slot of any of the providers that could answer it. Persons take turns:
after one of theirs was served, a person is the last in line, however many they have waiting. So
somebody with twenty requests delays somebody with one by one answer and not by twenty. Whoever
comes while others wait goes behind them, or the line would be for the polite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Ticket:
    """One place in the line, for a slot of any of `providers`. `wake` is called when it may be its
    turn."""

    person: str
    providers: frozenset[str]
    wake: Callable[[], None]


class Queue:
    """The line. A person's tickets stand in the order in which they came; the persons stand in the
    order of their turns."""

    def __init__(self) -> None:
        self._line: dict[str, list[Ticket]] = {}

    def __repr__(self) -> str:
        return f"Queue({ {person: len(tickets) for person, tickets in self._line.items()} })"

    def waiting(self, provider: str) -> int:
        """How many wait for a slot of `provider`, among others perhaps."""
        return sum(provider in t.providers for tickets in self._line.values() for t in tickets)

    def join(self, providers: Iterable[str], person: str, wake: Callable[[], None]) -> Ticket:
        """The last place of the person's own."""
        ticket = Ticket(person, frozenset(providers), wake)
        self._line.setdefault(person, []).append(ticket)
        return ticket

    def first(self, provider: str) -> Ticket | None:
        """Whose turn it is at the next slot of `provider`."""
        for tickets in self._line.values():
            for ticket in tickets:
                if provider in ticket.providers:
                    return ticket
        return None

    def narrow(self, ticket: Ticket, providers: Iterable[str]) -> None:
        """Wait for these providers alone. Whoever is next at one that is given up is woken."""
        before, ticket.providers = ticket.providers, frozenset(providers)
        for provider in before - ticket.providers:
            self.freed(provider)

    def leave(self, ticket: Ticket, *, served: bool) -> None:
        """Give up a place; a person who was served goes to the end. The next ones are woken, at
        what this one waited for and at whatever else its person was first for."""
        tickets = self._line[ticket.person]
        tickets.remove(ticket)
        if not tickets or served:
            del self._line[ticket.person]
        if tickets and served:
            self._line[ticket.person] = tickets
        for provider in ticket.providers.union(*(t.providers for t in tickets if served)):
            self.freed(provider)

    def freed(self, provider: str) -> None:
        """A slot of `provider` may be free."""
        if ticket := self.first(provider):
            ticket.wake()
