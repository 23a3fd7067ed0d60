"""What exercised a property: the counters of a result, and the smallest counts with which a pass means something."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Final, final

import numpy as np

from checkers.history.counting import apart, grouped
from checkers.history.foreign_values import shown
from checkers.history.history import FaultInterval
from checkers.history.holds_and_lease_ends import Hold
from checkers.history.interval_sets import Span, united
from checkers.history.view import View
from checkers.row_format import ACQUIRES, FINAL, INFINITY, NESTED, SHARED, F, Outcome, Reason

EXCLUSION: Final = frozenset({"server-exclusion", "permits"})  # one of these is asked of every lock
ON_LEASES: Final = frozenset({"clock", "wipe", "failover"})
"""Kinds of faults that affect what a server knows of a lease, so that a lease must be in force at that moment."""
STORE: Final = "the store"  # the name of the store in a hit: the one end of a link that is no server
TEXT_SHOWN: Final = 80  # how many characters of a recorded error text are repeated


@final
@dataclass(frozen=True, slots=True)
class Exercise:
    """What exercised a property, counted beside `counters`. missing: why a pass would mean nothing, or None."""

    missing: str | None
    counters: Mapping[str, int] = field(default_factory=dict)


_REASONS: Final = {each.value: each.name.lower().replace("_", " ") for each in Reason}

GRANTS: Final = "grants"
HAND_OVERS: Final = "hand-overs"
CONTENDED: Final = "contended acquires"
UNDER_FAULT: Final = "operations under a fault"
EXPIRED: Final = "leases that expired while held"
UNANSWERED: Final = "unknown outcomes"
MIXED: Final = "operations in the mixed state"


def counters(view: View) -> dict[str, int]:
    """Counts of what happened to the lock, the same for every property."""
    rolled = [fault for fault in view.struck if fault.kind == "version"]
    pairs = chain.from_iterable(map(pairwise, view.holds.by_key.values()))
    return {
        GRANTS: len(view.holds),
        HAND_OVERS: sum(view.worker(before.row) != view.worker(after.row) for before, after in pairs),
        CONTENDED: contended(view),
        UNDER_FAULT: _in_flight(view, [(fault.begun, fault.over) for fault in view.struck]),
        EXPIRED: sum(hold.expiry < hold.left for hold in view.holds),
        UNANSWERED: int((view.array("outcome") == Outcome.INFO).sum()),
        **({MIXED: mixed(view, rolled)} if rolled else {}),
    }


def contended(view: View) -> int:
    """Acquires, however they ended, that met another's hold of the same key; a reader must have met a writer's hold."""
    kinds, keys, invs, flags = (view.array(name) for name in ("f", "key", "inv", "flags"))
    acquires = np.isin(kinds, ACQUIRES) & (flags & NESTED == 0)
    total = 0
    for shared in (False, True):
        mine = acquires & (flags & SHARED == SHARED * shared)
        holds = [(hold.key, hold.ret, hold.left) for hold in view.holds if not (shared and hold.shared)]
        key, ret, left = np.array(holds, np.int64).reshape(-1, 3).T
        sent, answered, begins, ends = apart(
            (keys[mine], invs[mine]), (keys[mine], view.ended[mine]), (key, ret), (key, left)
        ).places
        # An acquire's own hold begins when the acquire returns, and does not count.
        met = np.searchsorted(np.sort(begins), answered, "left") - np.searchsorted(np.sort(ends), sent, "right")
        total += int((met > 0).sum())
    return total


def _in_flight(view: View, spans: Iterable[tuple[int, int]]) -> int:
    invs = view.array("inv")
    met = np.zeros(len(invs), bool)
    for begun, ended in spans:
        met |= (invs <= ended) & (view.ended >= begun)
    return int((met & (view.array("flags") & FINAL == 0) & (view.array("f") != F.STALL)).sum())


def mixed(view: View, rolled: Sequence[FaultInterval]) -> int:
    """Operations that were in flight while some servers had another version than the others.

    rolled: each fault changes one server from one of two versions to the other, and names the server first in its
    target. A fault that is undone changes it twice. A fault that stays is healed in the moment in which it is applied.
    """
    turns = [(fault.begun, fault.applied, fault.target.partition(" ")[0]) for fault in rolled]
    undone = [fault for fault in rolled if fault.healing > fault.applied]
    turns += [(fault.healing, fault.over, fault.target.partition(" ")[0]) for fault in undone]
    changed: set[str] = set()
    since, spans = 0, []
    for begun, applied, server in sorted(turns):
        if since:
            spans.append((since, begun))
        changed ^= {server}
        since = applied if changed and len(changed) != len(view.facts.versions) else 0
    return _in_flight(view, [*spans, *([(since, INFINITY)] if since else [])])


def stalls_by_worker(view: View) -> dict[int, list[Span]]:
    """Worker → when the machine did not run it. A stall that a kill cut off is left out."""
    by_worker = grouped((row for row in view.rows(F.STALL) if view.stopped[row]), view.worker)
    return {worker: [(view.inv[row], view.stopped[row]) for row in rows] for worker, rows in by_worker.items()}


def unserved(view: View) -> list[Span]:
    """When the machine stalled a worker of the lane, and perhaps the service, or the trial asked the latter in vain."""
    return united((*chain.from_iterable(view.once(stalls_by_worker).values()), *view.facts.silences))


def idle(view: View) -> list[Span]:
    """Stalls and silences (checkers/CONDITIONS.md, section 12, `hand-over`). Without a lease only a lost answer counts:
    others may be late because another thread uses the client's one connection.
    """
    ended, leased = view.ended.tolist(), view.facts.lease != "none"
    renewals = (row for row in view.rows(F.RENEW, F.KEEP_ALIVE) if leased or view.outcome[row] == Outcome.INFO)
    waited = ((view.inv[row], ended[row]) for row in renewals)
    return united([*view.once(unserved), *waited, *view.once(unanswered)])


def unanswered(view: View) -> list[Span]:
    """When keep-alives of a worker got no answer (checkers/CONDITIONS.md, section 12, `hand-over`). A keep-alive whose
    worker was killed meanwhile says nothing. Renewals are sent by holders only, and may be late.
    """
    ended = view.ended.tolist()
    spans: list[Span] = []
    first: dict[int, int] = {}  # worker → row of the first that has no answer
    for row in view.rows(F.KEEP_ALIVE):
        worker = view.worker(row)
        if view.stopped[row] and (view.outcome[row] == Outcome.INFO or view.reason[row] == Reason.UNAVAILABLE):
            first.setdefault(worker, row)
        elif view.stopped[row] and worker in first:
            spans.append((view.inv[first.pop(worker)], ended[row]))
    return [*spans, *((view.inv[row], ended[row] + view.facts.ttl) for row in first.values())]


def undisturbed(row: int, view: View) -> bool:
    """Whether no known fault, the time to recover from it included, and no stall of its worker delayed an answer."""
    healing = view.facts.bounds.get("recovery", 0)
    spans = [(fault.begun, fault.over + healing) for fault in view.history.faults if fault.begun]
    spans += view.once(stalls_by_worker).get(view.worker(row), ())
    return not any(begun <= view.ret[row] and view.inv[row] <= ended for begun, ended in spans)


def fault_missed(view: View) -> str | None:
    """Why the faults of the plan did not touch the lane, or None."""
    came = grouped(view.struck, lambda fault: fault.name)
    for name in view.facts.planned:
        if name not in came:
            return f"{name} never took effect"
        if not any(fault.kind not in ON_LEASES or _met_a_lease(fault, view) for fault in came[name]):
            return f"{name} met no lease in force"
    return "no operation met the fault" if came and not view.once(counters)[UNDER_FAULT] else None


def _met_a_lease(fault: FaultInterval, view: View) -> bool:
    return any(hold.start <= fault.applied and fault.begun <= min(hold.expiry, hold.free) for hold in view.holds)


def write_missed(view: View) -> str | None:
    """Why a fault on the way to the store did not touch a write of the lane, or None."""
    to_the_store = (fault for fault in view.struck if STORE in fault.target)
    sent = [view.inv[row] for row in view.rows(F.WRITE, outcomes=(Outcome.INFO,))]
    for name, hits in grouped(to_the_store, lambda fault: fault.name).items():
        if not any(fault.begun <= moment <= fault.over for fault in hits for moment in sent):
            return f"{name} left no write without an answer"
    return None


def unless(there: object, reason: str) -> str | None:
    """The reason, if nothing is there."""
    return None if there else reason


def lock_unexercised(view: View) -> str | None:
    """Why a pass would say nothing about exclusion, or None. A lane without a lock needs no hand-over.

    Small counts are enough: one contended hand-over under the fault is a real test.
    """
    locks = not view.facts.properties or EXCLUSION.intersection(view.facts.properties)
    needs = {GRANTS: 2, HAND_OVERS: 1, CONTENDED: 1} if locks else {GRANTS: 2}
    short = short_of(view.once(counters), needs)
    if short is None:
        return fault_missed(view)
    cause = in_vain(view)
    return f"{short}: {cause}" if cause else short


def short_of(counted: Mapping[str, int], needs: Mapping[str, int]) -> str | None:
    """The first counter that is too small, in words, or None."""
    for name, least in needs.items():
        if counted[name] < least:
            return f"{counted[name] or 'no'} {name if counted[name] != 1 else name.removesuffix('s')}, {least} needed"
    return None


def in_vain(view: View) -> str:
    """How acquires since the last grant ended, which mostly says why grants are few; empty if most were granted."""
    last = max(view.holds, key=lambda hold: hold.ret, default=None)
    failed = view.attempts(Outcome.FAIL, Outcome.INFO)
    rows = [row for row in failed if last is None or not view.stopped[row] or view.stopped[row] > last.ret]
    if not rows or len(rows) < len(view.holds):
        return ""
    ends = Counter(ending(row, view) for row in rows).most_common()
    cause = f"{len(rows)} acquire{'s' * (len(rows) != 1)}"
    cause += f" {ends[0][0]}" if len(ends) == 1 else ", " + ", ".join(f"{count} {words}" for words, count in ends)
    if last is not None:
        cause = f"{'the last ' * (len(view.holds) > 1)}{_parting(last, view)}, {cause} since"
    texts: Counter[str] = Counter()
    for number, count in Counter(view.array("error")[rows].tolist()).items():
        texts[_shown(number, view)] += count
    del texts[""]
    for text, count in texts.most_common(1):
        cause += f", {'mostly' if count * 2 > len(rows) else 'most often'} {text}"
    return cause


def ending(row: int, view: View) -> str:
    reason = view.reason[row]
    if view.outcome[row] == Outcome.INFO:
        return "got no answer" if view.array("ret")[row] else "never returned"
    if reason == Reason.TIMEOUT:
        return "timed out"
    return f"failed ({_REASONS.get(reason, f'reason {reason}')})" if reason != Reason.NONE else "failed"


def error_text(row: int, view: View) -> str:
    """The error text of an operation in quotes, on one line and short; empty where there is none."""
    return _shown(int(view.array("error")[row]), view)


def _shown(number: int, view: View) -> str:
    """An error text by its number; empty while a trial still runs, since nobody has collected the texts then."""
    text = view.history.errors[number] if number < len(view.history.errors) else ""
    return f'"{shown(text, TEXT_SHOWN)}"' if text else ""


def _parting(hold: Hold, view: View) -> str:
    if hold.freed < INFINITY:
        return f"released at {view.clock(hold.freed)}"
    if hold.release >= 0:
        refused = view.outcome[hold.release] == Outcome.FAIL
        sent = view.clock(view.inv[hold.release])
        return f"release sent at {sent} {'was refused' if refused else 'got no answer'}"
    if hold.lost >= 0:
        return f"lost at {view.clock(hold.left)}"
    return f"granted at {view.clock(hold.ret)} and never released"
