"""The queue for slots, round-robin by user.

A request waits for the first free slot of any provider that could answer it. After one of a user's
requests is served, the user moves to the end, however many requests they have queued: a user with
twenty requests delays another by one answer, not by twenty. New requests never overtake the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Ticket:
    """One queued request for a slot of any of `providers`. `wake` is called when it may be its
    turn."""

    person: str
    providers: frozenset[str]
    wake: Callable[[], None]


class Queue:
    """Tickets by person: FIFO within a person, round-robin between persons."""

    def __init__(self) -> None:
        self._tickets: dict[str, list[Ticket]] = {}

    def __repr__(self) -> str:
        return f"Queue({ {person: len(tickets) for person, tickets in self._tickets.items()} })"

    def waiting(self, provider: str) -> int:
        """How many tickets include `provider`."""
        return sum(provider in t.providers for tickets in self._tickets.values() for t in tickets)

    def join(self, providers: Iterable[str], person: str, wake: Callable[[], None]) -> Ticket:
        """Append a ticket to the person's own."""
        ticket = Ticket(person, frozenset(providers), wake)
        self._tickets.setdefault(person, []).append(ticket)
        return ticket

    def first(self, provider: str) -> Ticket | None:
        """The ticket that is next for a slot of `provider`."""
        for tickets in self._tickets.values():
            for ticket in tickets:
                if provider in ticket.providers:
                    return ticket
        return None

    def narrow(self, ticket: Ticket, providers: Iterable[str]) -> None:
        """Restrict the ticket to these providers; wakes the next ticket for those given up."""
        before, ticket.providers = ticket.providers, frozenset(providers)
        for provider in before - ticket.providers:
            self.freed(provider)

    def leave(self, ticket: Ticket, *, served: bool) -> None:
        """Remove the ticket; a person who was served moves to the end. Wakes the next tickets for
        its providers and, if served, for those of the person's other tickets."""
        tickets = self._tickets[ticket.person]
        tickets.remove(ticket)
        if not tickets or served:
            del self._tickets[ticket.person]
        if tickets and served:
            self._tickets[ticket.person] = tickets
        for provider in ticket.providers.union(*(t.providers for t in tickets if served)):
            self.freed(provider)

    def freed(self, provider: str) -> None:
        """A slot of `provider` may be free."""
        if ticket := self.first(provider):
            ticket.wake()
