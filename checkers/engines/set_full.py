"""What became of each element that was added to a set, from reads of the whole: Jepsen's set-full analysis.

Of an element, over the answered reads of its key:

attempted    an addition of it was invoked that did not fail.
known        the earliest return of an acknowledged addition of it, or of a read that showed it.
last absent  the latest invocation of a read that did not show it; likewise last present.
lost         known before its last absence, and that after its last presence if there was one: acknowledged, and no
             longer there. Which is to say that a read which began last does not show it, no other that began then
             does, and it was known before. Invalid.
stable       shown, and not absent from any read that began after the last one that showed it.
stale        stable, but absent once after it was known: by ``last absent - known``, in ns. Counted, not invalid: a set
             that must be linearizable is another model.
never read   acknowledged, shown by no read, and no read began after it was known: nothing is known of it.
duplicated   shown more often by one read than additions of it were attempted. Invalid.

Invalid is also a read of what nobody had attempted to add before it returned. A key of which something was
acknowledged and nothing is stable is not exercised: undecided. Lists, tuples and sets are read alike, nil as empty.

Cost: near-linear in the operations and in what the reads show, of which one at a time is unfolded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from checkers.engines.engine import Answer, Conflict
from checkers.engines.growth import Table, answered
from checkers.engines.sets import additions
from checkers.history import History
from checkers.models.accumulators import collection
from checkers.models.model import Settings
from checkers.wire import F


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of the elements of one key: counts, and the elements that are counted as lost.

    worst  ns; by how much the most stale one was late, and ``stalest`` which that was.
    """

    attempted: int
    acknowledged: int
    stable: int
    stale: int
    never_read: int
    lost: tuple[Hashable, ...]
    worst: int = 0
    stalest: Hashable = None


def set_full(history: History, settings: Settings) -> Answer:
    """Conflicts: ``element-lost``, ``element-duplicated``, ``value-never-written`` and its like. Order: as invoked."""
    table = Table(history, settings, F.ADD, F.READ)
    conflicts: list[Conflict] = []
    undecided: dict[int, str] = {}
    orders = []
    for key, rows in table.by_key():
        one = _Key(table, rows)
        found = one.conflicts(key)
        if found:
            conflicts += found
        elif one.unexercised():
            undecided[key] = "unexercised: of what was acknowledged, no read showed anything"
        else:
            orders.append(partial(_as_invoked, table, rows))
    return answered(conflicts, undecided, orders)


def fates(history: History, settings: Settings) -> Mapping[int, Fate]:
    """Key → what became of its elements."""
    table = Table(history, settings, F.ADD, F.READ)
    return {key: _Key(table, rows).fate() for key, rows in table.by_key()}


def _as_invoked(table: Table, rows: Sequence[int]) -> Sequence[int]:
    return [row for row in rows if not table.failed(row)]


class _Key:
    """One key of a history. Element → row: `_known` what made it known, `_present` and `_absent` the last read with it
    and without it.
    """

    def __init__(self, table: Table, rows: Sequence[int]) -> None:
        self._table = table
        self._added, self._failed = additions(table, rows)
        self._reads = [row for row in rows if table.f[row] == F.READ and table.ok(row) and not table.silent(row)]
        self._known: dict[Hashable, int] = {}
        self._present: dict[Hashable, int] = {}
        self._absent: dict[Hashable, int] = {}
        for element, (first, others) in self._added.items():
            done = [row for row in (first, *others) if table.ok(row)]
            if done:
                self._known[element] = min(done, key=table.ret.__getitem__)
        self._acknowledged = frozenset(self._known)
        self._found: list[tuple[str, tuple[int, ...]]] = []
        self._walk()

    def _walk(self) -> None:
        table = self._table
        attempts = Counter(table.value(row) for row in self._attempts())
        unseen: set[Hashable] = set()
        for row in sorted(self._reads, key=table.ret.__getitem__):
            elements = collection(table.value(row))
            if elements is None:
                self._found.append(("not-a-collection", (row,)))
                continue
            if len(elements) != len(table.value(row) or ()):
                times = Counter(table.value(row))
                if any(count > max(1, attempts[element]) for element, count in times.items()):
                    self._found.append(("element-duplicated", (row,)))
            for element in elements - unseen:
                self._met(element, row)
            unseen |= elements
        # From the last read backwards: what every read so far showed, and what none did.
        always = set(self._added)
        for row in reversed(self._reads):
            elements = collection(table.value(row)) or frozenset()
            new = elements & unseen
            unseen -= new
            self._present.update(dict.fromkeys(new, row))
            missing = always - elements
            always -= missing
            self._absent.update(dict.fromkeys(missing, row))

    def _attempts(self) -> Iterator[int]:
        for first, others in self._added.values():
            yield first
            yield from others

    def _met(self, element: Hashable, read: int) -> None:
        """The first read, in order of return, that showed an element."""
        table = self._table
        if element not in self._added:
            if element in self._failed:
                self._found.append(("refused-value-read", (self._failed[element], read)))
            else:
                self._found.append(("value-never-written", (read,)))
            return
        first = self._added[element].first
        if table.ret[read] < table.inv[first]:
            self._found.append(("value-read-before-write", (read, first)))
        known = self._known.get(element)
        if known is None or table.ret[read] < table.ret[known]:
            self._known[element] = read

    def _lost(self) -> Iterator[tuple[Hashable, tuple[int, ...]]]:
        """Elements that are lost, with the rows that show it."""
        table = self._table
        for element, absent in self._absent.items():
            known, present = self._known.get(element), self._present.get(element)
            if known is None or table.ret[known] >= table.inv[absent]:
                continue
            if present is None or table.inv[present] < table.inv[absent]:
                rows = (known, absent) if present is None else (known, present, absent)
                yield element, tuple(dict.fromkeys(rows))

    def conflicts(self, key: int) -> list[Conflict]:
        """What makes the key invalid."""
        found = [Conflict(kind, key, rows) for kind, rows in self._found]
        return found + [Conflict("element-lost", key, rows) for _, rows in self._lost()]

    def _stable(self) -> list[Hashable]:
        inv = self._table.inv
        return [
            element
            for element, present in self._present.items()
            if element in self._added and inv[self._absent.get(element, present)] <= inv[present]
        ]

    def unexercised(self) -> bool:
        """Whether nothing can be said for want of reads."""
        return not self._stable()

    def fate(self) -> Fate:
        """See `Fate`."""
        table = self._table
        lost = tuple(element for element, _ in self._lost())
        stable = self._stable()
        late = {
            element: table.inv[self._absent[element]] - table.ret[self._known[element]]
            for element in stable
            if element in self._absent
        }
        stale = {element: delay for element, delay in late.items() if delay > 0}
        stalest = max(stale, key=stale.__getitem__, default=None)
        return Fate(
            attempted=len(self._added),
            acknowledged=len(self._acknowledged),
            stable=len(stable),
            stale=len(stale),
            never_read=len(self._acknowledged - set(self._present) - set(lost)),
            lost=lost,
            worst=0 if stalest is None else stale[stalest],
            stalest=stalest,
        )


def certify(history: History, settings: Settings, valid: bool, rows: Sequence[int]) -> str | None:  # noqa: FBT001
    """Whether a proof holds, from the definitions alone: None, or what is wrong with it.

    rows: valid, every operation that did not fail; invalid, those of one conflict.
    """
    table = Table(history, settings, F.ADD, F.READ)
    by_key = dict(table.by_key())
    if valid:
        missing = {row for every in by_key.values() for row in every if not table.failed(row)} - set(rows)
        problems = [row for every in by_key.values() if (row := _wrong(table, every)) is not None]
        return f"row {min(missing)} is missing" if missing else f"row {problems[0]} is wrong" if problems else None
    key = int(history.columns["key"][rows[-1]])
    return None if _wrong(table, by_key.get(key, ()), rows) is not None else "the rows do not contradict each other"


def _wrong(table: Table, every: Sequence[int], among: Sequence[int] | None = None) -> int | None:
    """A read of one key that cannot be right, or after which something is lost. among: only by these rows."""
    attempted: dict[Hashable, list[int]] = {}
    for row in every:
        if table.f[row] == F.ADD and not table.failed(row):
            attempted.setdefault(table.value(row), []).append(table.inv[row])
    reads = [row for row in every if table.f[row] == F.READ and table.ok(row) and not table.silent(row)]
    if not reads:
        return None
    final = max(table.inv[row] for row in reads)
    left: set[Hashable] = set()
    for row in reads:
        if table.inv[row] == final:
            left |= collection(table.value(row)) or set()
    chosen = every if among is None else among
    for row in chosen:
        if not table.ok(row):
            continue
        if table.f[row] == F.ADD:
            shown: Counter[Hashable] = Counter((table.value(row),))
        elif not table.silent(row):
            if collection(table.value(row)) is None:
                return row
            shown = Counter(table.value(row))
            for element, times in shown.items():
                before = [at for at in attempted.get(element, ()) if at <= table.ret[row]]
                if not before or times > max(1, len(attempted[element])):
                    return row
        else:
            continue
        if table.ret[row] < final and not left.issuperset(shown):
            return row
    return None
