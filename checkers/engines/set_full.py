"""What became of each element that was added to a set, from reads of the whole: Jepsen's set-full analysis.

Source: checkers/CONDITIONS.md, section 20, which is the definition. An element is stable if somebody tried to add it, a
read shows it, and no read without it was invoked after the last read with it. Lists, tuples and sets count alike, nil
as empty. Linear in what reads show.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Sequence
from typing import Final

import numpy as np

from checkers.history.history import History
from checkers.models.accumulators import SetModel, collection
from checkers.models.engine_answer import Conflict, EngineAnswer
from checkers.models.model import Operation, Settings
from checkers.models.operations import ByKey, Operations
from checkers.row_format import F, Outcome

_KINDS: Final = (F.READ, F.ADD)


def set_full(history: History, settings: Settings) -> EngineAnswer:
    """Conflicts: ``element-lost``, ``element-duplicated``, ``value-never-written`` and the like. Order: as invoked."""
    by_key, model = ByKey(history, _KINDS), SetModel.of(history, settings)
    conflicts: list[Conflict] = []
    undecided: dict[int, str] = {}
    for key in by_key.keys:
        wrong, stable = _examined(by_key[key], model)
        conflicts += [Conflict(kind, key, tuple(dict.fromkeys(o.row for o in shown_by))) for kind, shown_by in wrong]
        if not wrong and not stable:
            undecided[key] = "unexercised: of what was acknowledged, no read showed anything"
    rows = np.concatenate([np.empty(0, np.int64), *(by_key[key].rows for key in by_key.keys if key not in undecided)])
    order = rows[history.columns["outcome"][rows] != Outcome.FAIL]
    return EngineAnswer(tuple(conflicts), undecided, lambda: order)


def _examined(operations: Operations, model: SetModel) -> tuple[list[tuple[str, list[Operation]]], bool]:
    """What is wrong with one key, with the operations that show it, and whether any element is stable."""
    tries = defaultdict[Hashable, list[Operation]](list)
    refused, first, present, absent = (dict[Hashable, Operation]() for _ in range(4))
    reads: list[Operation] = []
    wrong: list[tuple[str, list[Operation]]] = []
    for o in operations:
        if o.f == F.ADD and o.failed:
            refused[o.value] = o
        elif o.f == F.ADD:
            tries[o.value].append(o)
        elif o.ok and not model.says_nothing(o) and collection(o.value) is None:
            wrong.append(("not-a-collection", [o]))
        elif o.ok and not model.says_nothing(o):
            reads.append(o)
    for read in sorted(reads, key=lambda o: (o.ret, o.row), reverse=True):
        first.update(dict.fromkeys(read.value or (), read))
    for read in reads:
        shown = dict.fromkeys(read.value or (), read)
        present.update(shown)
        repeated = Counter(read.value) if len(shown) < len(read.value or ()) else {}
        if any(times > max(1, len(tries.get(e, ()))) for e, times in repeated.items()):
            wrong.append(("element-duplicated", [read]))
    always = set(tries)
    for read in reversed(reads):
        missing = always.difference(read.value or ())
        absent.update(dict.fromkeys(missing, read))
        always -= missing
    for e, read in first.items():
        if e not in tries:
            wrong += [("refused-value-read", [refused[e], read]) if e in refused else ("value-never-written", [read])]
        elif read.ret < tries[e][0].inv:
            wrong.append(("value-read-before-write", [read, tries[e][0]]))
    stable = False
    for e, tried in tries.items():
        shows, lacks = ([last[e]] if e in last else [] for last in (present, absent))
        known = sorted((o for o in (*tried, *(shows and [first[e]])) if o.ok), key=lambda o: o.ret)[:1]
        if shows and (not lacks or lacks[0].inv <= shows[0].inv):
            stable = True
        elif known and lacks and known[0].ret < lacks[0].inv:
            wrong.append(("element-lost", [*known, *shows, *lacks]))
    return wrong, stable


def certify(history: History, settings: Settings, valid: bool, rows: Sequence[int]) -> str | None:  # noqa: FBT001
    """None if a proof holds by the definitions, else what is wrong. rows: all that did not fail, or one conflict's."""
    by_key, model = ByKey(history, _KINDS), SetModel.of(history, settings)
    if not valid:
        proven = _contradicted(by_key[int(history.columns["key"][rows[-1]])], model, rows)
        return None if proven else "the rows do not contradict each other"
    missing = {o.row for key in by_key.keys for o in by_key[key] if not o.failed}.difference(rows)
    wrong = [key for key in by_key.keys if _contradicted(by_key[key], model, range(len(history)))]
    return f"row {min(missing)} is missing" if missing else f"key {wrong[0]} is wrong" if wrong else None


def _contradicted(operations: Operations, model: SetModel, among: Container[int]) -> bool:
    """Whether an operation in `among` is a read that cannot be right, or shows an element that is lost afterwards."""
    adds = [o for o in operations if o.f == F.ADD and not o.failed]
    reads = [o for o in operations if o.f == F.READ and o.ok and not model.says_nothing(o)]
    tries, begun = Counter(o.value for o in adds), {o.value: o.inv for o in reversed(adds)}
    final = max((o.inv for o in reads), default=0)
    left = set[Hashable]().union(*(collection(o.value) or () for o in reads if o.inv == final))
    for o in (o for o in (*adds, *reads) if o.ok and o.row in among):
        if o.f == F.READ and collection(o.value) is None:
            return True
        shown = Counter((o.value,) if o.f == F.ADD else o.value)
        if any(times > max(tries[e], 1) or begun.get(e, o.ret + 1) > o.ret for e, times in shown.items()):
            return True
        if o.ret < final and not left.issuperset(shown):
            return True
    return False
