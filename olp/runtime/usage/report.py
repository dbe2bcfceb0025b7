"""Usage reports from the request log: totals by group, and single requests.

Whole days come from the pre-aggregated `sums` table; only partial days are summed from their
requests. So a report takes milliseconds however large the log is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, get_args

from olp.core.keys.time_range import TimeRange, time_range
from olp.errors import RequestError
from olp.runtime.access.caller import Caller
from olp.runtime.usage.entries import RequestRow
from olp.runtime.usage.store import UsageStore

By = Literal["person", "provider", "model", "day"]
BY: Sequence[By] = get_args(By)

SINCE = "7d"
"""Default start of the time range."""


@dataclass(slots=True)
class Totals:
    """Totals of several requests. Token counts are as in `Usage`."""

    requests: int = 0

    answered: int = 0

    refused: int = 0

    gone: int = 0
    """Requests whose client disconnected."""

    background: int = 0
    """Requests that were background jobs."""

    fallbacks: int = 0
    """Requests answered by a later hop."""

    input: int = 0
    """Tokens."""

    output: int = 0
    """Tokens."""

    cached: int = 0
    """Tokens."""

    cache_written: int = 0
    """Tokens."""

    reasoning: int = 0
    """Tokens."""

    estimated: int = 0
    """Requests whose tokens are OLP's estimate."""

    cost: float = 0.0
    """US dollars as the CLIs state them."""

    costed: int = 0
    """Requests for which the CLI stated a cost."""

    first_ms: int = 0
    """Total time to the first content, in milliseconds."""

    began: int = 0
    """Requests that had any content."""

    total_ms: int = 0
    """Total duration in milliseconds."""

    bytes_in: int = 0

    bytes_out: int = 0

    def add(self, other: Totals) -> None:
        """Add `other` to this."""
        for name in COLUMNS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def told(self) -> dict[str, Any]:
        """As JSON, with averages instead of the sums they are computed from."""
        tried = self.requests - self.refused
        failed = tried - self.answered - self.gone
        return {
            **{name: getattr(self, name) for name in COLUMNS[:2]},
            "failed": failed,
            **{name: getattr(self, name) for name in COLUMNS[2:12]},
            "cost_estimate_usd": round(self.cost, 6) if self.costed else None,
            "requests_with_cost": self.costed,
            "first_content_ms": round(self.first_ms / self.began) if self.began else None,
            "total_ms": round(self.total_ms / tried) if tried else None,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
        }


COLUMNS = tuple(field.name for field in fields(Totals))

FROM_ROWS = {
    "requests": "count(*)",
    "answered": "sum(outcome = 'answered')",
    "refused": "sum(outcome = 'refused')",
    "gone": "sum(outcome = 'left')",
    "background": "sum(background != '')",
    "fallbacks": "sum(hops > 0 AND outcome = 'answered')",
    "cost": "total(cost)",
    "costed": "count(cost)",
    "first_ms": "ifnull(sum(first_ms), 0)",
    "began": "count(first_ms)",
}
"""SQL for the columns of `sums` that are not the plain sum of a request column."""

Names = Mapping[str, str]
"""Names of persons by key id."""


class UsageReport:
    """Reports from `store`. `names` override the last names stored with requests."""

    def __init__(
        self, store: UsageStore, names: Names | None = None, wall: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._wall = wall
        told = {str(key): str(name) for key, name in store.read("SELECT person, name FROM names")}
        self._names = {**told, **(names or {})}

    @property
    def problem(self) -> str | None:
        """Why the store cannot be read, if so."""
        return self._store.problem

    def name(self, person: str) -> str:
        """The name of the person with this id."""
        return self._names.get(person, person)

    def ids(self, name: str) -> list[str]:
        """The ids with this name: one person may have had several keys."""
        return [key for key, called in self._names.items() if called.lower() == name.lower()]

    def known(self) -> Sequence[str]:
        """All names, sorted, each once."""
        return sorted(set(self._names.values()))

    # --- totals --------------------------------------------------------------------------------

    def usage(
        self, by: By, when: TimeRange, persons: Collection[str] | None = None
    ) -> dict[str, Totals]:
        """The sums by `by`, the largest first (days in their order). `persons` are ids."""
        found: dict[str, Totals] = {}
        models = self._models() if by == "model" else {}
        for key, more, total in self._sums(by, when, persons):
            key = models.get((more, key), key)
            name = self.name(key) if by == "person" else f"{more}/{key}" if more else key
            found.setdefault(name or "none", Totals()).add(total)
        if by == "day":
            return dict(sorted(found.items()))
        return dict(sorted(found.items(), key=lambda item: -item[1].requests))

    def _models(self) -> Mapping[tuple[str, str], str]:
        """The full model ids, by provider and the name used in chains."""
        rows = self._store.read("SELECT provider, name, model FROM models")
        return {(str(row[0]), str(row[1])): str(row[2]) for row in rows}

    def _sums(
        self, by: By, when: TimeRange, persons: Collection[str] | None
    ) -> Iterable[tuple[str, str, Totals]]:
        key = f"{by}, {'provider' if by == 'model' else repr('')}"
        who, values = _among(persons)
        whole = ", ".join(f"sum({name})" for name in COLUMNS)
        parts = ", ".join(FROM_ROWS.get(name, f"sum({name})") for name in COLUMNS)
        queries = []
        for table, wanted, bounds in _pieces(when):
            columns = whole if table == "sums" else parts
            queries.append(
                f"SELECT {key}, {columns} FROM {table} WHERE {wanted}{who} GROUP BY 1, 2"
            )
            values |= bounds
        for row in self._store.read(" UNION ALL ".join(queries), values):
            yield str(row[0]), str(row[1]), Totals(*row[2:])

    def told(
        self, by: By, when: TimeRange, persons: Collection[str] | None = None
    ) -> dict[str, Any]:
        """The sums by `by` and their total, for JSON."""
        groups = self.usage(by, when, persons)
        total = Totals()
        for one in groups.values():
            total.add(one)
        return {
            "by": by,
            "since": when.since.isoformat() if when.since else None,
            "until": when.until.isoformat() if when.until else None,
            "groups": [{"name": name, **one.told()} for name, one in groups.items()],
            "total": total.told(),
        }

    # --- single requests -----------------------------------------------------------------------

    def requests(
        self,
        when: TimeRange | None = None,
        persons: Collection[str] | None = None,
        *,
        after: int | None = None,
        limit: int | None = None,
        in_vain: bool = False,
        request_id: str | None = None,
    ) -> list[dict[str, Any]]:
        """The newest `limit` requests in the order of their ends, each with `number` and the
        person's `name`. `after`: only numbers above it; `in_vain`: only failed ones (not answered,
        refused or left)."""
        who, values = _among(persons)
        wanted = "number > :after" if after is not None else "1"
        values["after"] = after
        for bound, sign in (("since", ">="), ("until", "<")):
            moment = getattr(when, bound) if when else None
            if moment is not None:
                values[bound] = moment.timestamp()
                values[f"{bound}_day"] = f"{moment:%Y-%m-%d}"
                wanted += f" AND at {sign} :{bound} AND day {sign[0]}= :{bound}_day"
        if request_id is not None:
            values["id"] = request_id
            wanted += " AND id = :id"
        if in_vain:
            wanted += " AND outcome NOT IN ('answered', 'left', 'refused')"
        columns = ", ".join(field.name for field in fields(RequestRow))
        rows = self._store.read(
            f"SELECT number, {columns} FROM requests WHERE {wanted}{who} "
            f"ORDER BY number DESC LIMIT {-1 if limit is None else limit}",
            values,
        )
        names = ("number", *(field.name for field in fields(RequestRow)))
        found = [dict(zip(names, row, strict=True)) for row in reversed(rows)]
        return [{**row, "name": self.name(row["person"])} for row in found]

    def last_number(self) -> int:
        """Number of the request that ended last; 0 if there is none."""
        rows = self._store.read("SELECT ifnull(max(number), 0) FROM requests")
        return int(rows[0][0]) if rows else 0


def usage_for(
    caller: Caller, query: Mapping[str, str], store: UsageStore, names: Names
) -> dict[str, Any]:
    """The report that `caller` may see: an owner everybody's or that of `person`, a member their
    own. Raises RequestError 400 for an invalid `query`."""
    report = UsageReport(store, names)
    by = next((name for name in BY if name == query.get("by", "person")), None)
    if by is None:
        raise RequestError(f"`by` is one of {', '.join(BY)}", param="by")
    try:
        when = time_range(query.get("since", SINCE), query.get("until"), datetime.now())
    except ValueError as error:
        raise RequestError(str(error), param="since") from None
    persons: Collection[str] | None = None
    if not caller.owner:
        persons = (caller.id,)
    elif person := query.get("person"):
        persons = report.ids(person)
    told = report.told(by, when, persons)
    return told | {"problem": report.problem if caller.owner else None}


def _among(persons: Collection[str] | None) -> tuple[str, dict[str, Any]]:
    if persons is None:
        return "", {}
    values = {f"person{index}": person for index, person in enumerate(persons)}
    return f" AND person IN ({', '.join(f':{name}' for name in values)})", dict(values)


def _pieces(when: TimeRange) -> Iterable[tuple[str, str, dict[str, Any]]]:
    """The time range as tables with conditions: `sums` for whole days, `requests` for the rest."""
    since, until = when.since, when.until
    first = _edge(since)
    last = _edge(until)
    values: dict[str, Any] = {}
    whole = ["1"]
    if since is not None:
        whole.append("day > :first" if first else "day >= :first")
        values["first"] = f"{since:%Y-%m-%d}"
    if until is not None:
        whole.append("day < :last")
        values["last"] = f"{until:%Y-%m-%d}"
    yield "sums", " AND ".join(whole), values
    same = since is not None and until is not None and since.date() == until.date()
    if first and since is not None:
        bounds = {"from": since.timestamp(), "to": until.timestamp() if same and until else 9e15}
        yield "requests", "day = :first AND at >= :from AND at < :to", bounds
    if last and until is not None and not (same and first):
        yield "requests", "day = :last AND at < :end", {"end": until.timestamp()}


def _edge(moment: datetime | None) -> bool:
    """Whether `moment` is inside a day, not at midnight."""
    return moment is not None and moment.time() != datetime.min.time()
