"""Compares the properties of recordings with exhaustive search on random tiny histories."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations, count
from random import Random
from typing import NamedTuple

from checkers.engines.lease_problem import posed
from checkers.engines.lease_schedule import conflicts
from checkers.history.holds_and_lease_ends import Hold
from checkers.history.view import View
from checkers.properties.recovery import ASKED
from checkers.properties.updates import lost_updates
from checkers.row_format import NONE, SHARED, F, Outcome, Reason
from checkers.tests import brute, experience, generate, shapes
from checkers.tests.brute import FOREVER
from checkers.tests.build import FAIL, INFO, OK, Book, Disagreement, compare, counted, result_on


def owners(rng: Random) -> str:
    """One history of a store that compares owners. Stores that look at tokens have a check of their own."""
    ops = [op for op in generate.either(rng, "compare-owner") if op.write or op.outcome != "fail"]
    truth = brute.linearizable(ops, (0, NONE, frozenset()), brute.compare_owner)
    return compare(result_on(generate.store_book(ops, "compare-owner"), "fenced-store").valid, truth, ops)


def server(rng: Random, *, kind: str) -> str:
    """Leases of one kind. A majority lock promises only that any two grants fit."""
    grants = generate.leases(rng, kind)
    if kind == "quorum":
        truth = all(brute.told([replace(g, token=NONE) for g in pair]) for pair in combinations(grants, 2))
    else:
        truth = brute.told(grants, kind)
    return compare(result_on(generate.lease_book(grants, kind, rng), "server-exclusion").valid, truth, (kind, grants))


def schedule(rng: Random) -> str:
    """Holds with start windows, many of them wide. The holds of a reported conflict must conflict by themselves."""
    holds = []
    for row in range(rng.randint(2, 6)):
        start = rng.randint(1, 14)
        latest = start + rng.choice((0, 0, 1, 2, 5, 9))
        length = rng.choice((0, 1, 2, 3, 5))
        released = rng.choice((FOREVER, start + rng.randint(0, 8), latest))
        fixed = rng.choice((0, 0, latest, latest + 2))
        hold = Hold(row, 0, row + 1, row, NONE, 0, start, start, latest, length)
        holds.append(hold._replace(latest=latest, length=length, fixed=fixed, free=released))
    order: list[int] = []
    found = list(conflicts(posed(holds, "grant", frozenset()), order=order))
    for numbers in found:
        conflict = [holds[n] for n in numbers]
        if brute.schedulable(conflict):
            raise Disagreement(f"reported as a conflict, though these fit:\n{conflict}\namong {holds}")
    movable = sum(hold.latest >= hold.core_end for hold in holds)
    return f"{compare(not found, brute.schedulable(holds), holds)}, {'some' if movable else 'none'} movable"


def holder(rng: Random) -> str:
    """Holds that end by release, notice of loss or silence; every overlapping pair must be reported."""
    lease = rng.choice(("grant", "none"))
    book = Book(keys=("a",), lease=lease)
    holds = []
    for owner in range(1, rng.randint(2, 6)):
        inv, ret = generate.call(rng, 1, 12, 3)
        book.acquire(inv, ret, owner)
        deed = prolonged = inv
        left, given_up = FOREVER, FOREVER
        if rng.random() < 0.5:
            left = ret + rng.randint(0, 6)
            book.release(left, left + 1, owner, rng.choice((OK, FAIL, INFO)))
        if rng.random() < 0.5:
            at, sure = ret + rng.randint(0, 6), rng.choice((NONE, inv + rng.randint(0, 9)))
            sure = min(sure, at)
            book.lost(at, owner, base=sure)
            given_up = sure if lease == "none" and at < left and sure != NONE else FOREVER
            left = min(left, at)
        if rng.random() < 0.5:
            deed = ret + rng.randint(0, 6)
            book.write(deed, deed + rng.randint(0, 9), owner, owner, rng.choice((OK, FAIL, INFO)))
        if rng.random() < 0.3:
            at, outcome = ret + rng.randint(0, 6), rng.choice((OK, FAIL, INFO))
            prolonged = at if outcome == OK else inv
            book.renew(at, at + rng.randint(0, 9), owner, outcome)
        silent = max(deed, prolonged) if left == FOREVER else left  # its last deed, or its last acknowledged renewal
        holds.append((ret, min(silent, max(given_up, deed))))
    return counted(result_on(book, "holder-exclusion"), brute.inside_together(holds), holds)


def tokens(rng: Random) -> str:
    grants = []
    for number in range(rng.randint(1, 5)):
        start = number * 2 + rng.randint(1, 5)
        token = number if rng.random() < 0.7 else rng.randint(0, 4)
        grants.append(brute.Lease(start, start + rng.randint(0, 5), 10, token=token))
    book = Book(keys=("a",))
    for owner, grant in enumerate(grants, 1):
        book.acquire(grant.start, grant.ret, owner, sent=grant.start, token=grant.token)
    return compare(result_on(book, "token-order").valid, brute.tokens_ordered(grants), grants)


def unfenced(rng: Random) -> str:
    """Counts stale writes into a store without a fence, by the definition in words."""
    grants = generate.leases(rng, "grant")
    book = generate.lease_book(grants, "grant", rng)
    book.facts = replace(book.facts, store="unfenced")
    kept = []
    for value in range(rng.randint(1, 4)):
        owner = rng.randint(1, len(grants))
        inv = grants[owner - 1].ret + rng.randint(0, 9)
        ret = inv + rng.randint(0, 2)
        outcome = rng.choice((OK, OK, INFO, FAIL))
        book.write(inv, ret, owner, value, outcome, token=grants[owner - 1].token)
        seen = rng.random() < 0.5
        if seen and outcome != FAIL:
            book.read(inv + 20, inv + 21, rng.randint(1, len(grants)), value)
        if outcome == OK or (outcome == INFO and seen):
            kept.append((inv, grants[owner - 1]))
    stale = sum(any(inv > later.ret for later in grants if brute.comes_after(later, it, grants)) for inv, it in kept)
    return counted(result_on(book, "fenced-store"), stale, book.rows)


def updates(rng: Random) -> str:
    """Holders that may overlap rewrite a list as a whole. The list itself shows which updates are lost."""
    book = Book(workload="set", keys=("a",))
    elements: list[int] = []
    acknowledged: dict[int, str] = {}
    pending: list[tuple[int, list[int]]] = []
    clock = 1
    for owner in range(1, rng.randint(2, 9)):
        book.acquire(clock, clock + 1, owner)
        book.read(clock + 2, clock + 3, owner, elements[-1] if elements else NONE)
        pending.append((owner, [*elements]))
        clock += 4
        while pending and (len(pending) > 2 or rng.random() < 0.75):
            who, base = pending.pop(rng.randrange(len(pending)))
            outcome = rng.choices((OK, INFO, FAIL), (8, 1, 1))[0]
            book.write(clock, clock + 1, who, who * 10, outcome, base=base[-1] if base else NONE)
            acknowledged[who * 10] = outcome.name
            if outcome == OK or (outcome == INFO and rng.random() < 0.5):
                elements = [*base, who * 10]
            clock += 2
    if rng.random() < 0.05 and elements:
        place = rng.randrange(len(elements))
        last = place == len(elements) - 1
        gone = elements.pop(place)  # the store itself lies
        book.final(clock, clock + 1, elements[-1] if elements else NONE, len(elements))
        unnoticed = last and acknowledged[gone] == "INFO" and not _lost(acknowledged, elements)
        return compare(result_on(book, "no-lost-update").valid, unnoticed, (elements, book.rows))
    book.final(clock, clock + 1, elements[-1] if elements else NONE, len(elements))
    history = book.history()
    found = {int(history.columns["value"][row]) for row in lost_updates(View(history))}
    if found != _lost(acknowledged, elements):
        raise Disagreement(f"checker lost {found}, in truth {_lost(acknowledged, elements)}:\n{book.rows}")
    return compare(result_on(book, "no-lost-update").valid, not found, book.rows)


def _lost(acknowledged: dict[int, str], elements: list[int]) -> set[int]:
    return {value for value, outcome in acknowledged.items() if outcome == "OK" and value not in elements}


class Request(NamedTuple):
    """An acquire. `ret` is infinite if it never returned; `left` (its release) is 0 if nothing was granted."""

    inv: int
    ret: float
    outcome: Outcome
    left: int
    over: int  # return of its release, late if that was not answered
    worker: int
    reader: bool
    failed: bool  # it found no service


def recovery(rng: Random) -> str:
    """One key after one heal, with holders from before it, readers, several permits, and requests of every outcome."""
    healed, bound = rng.randint(4, 12), rng.randint(2, 10)
    book = Book(keys=("a",), bounds={"recovery": bound}, fault_names=("cut",), permits=rng.choice((1, 1, 2)))
    book.facts = replace(book.facts, patience=rng.randint(1, 12))
    book.fault("cut", 2, healed)
    requests = []
    for owner in range(1, rng.randint(2, 7)):
        inv, flags = rng.randint(1, 30), SHARED * (rng.random() < 0.3)
        ret, outcome = inv + rng.randint(0, 12), rng.choice((OK, OK, FAIL, INFO))
        left, unavailable = ret + rng.randint(0, 15) if outcome == OK else 0, False
        if outcome == OK:
            answer = rng.choice((OK, OK, INFO))
            book.acquire(inv, ret, owner, flags=flags).release(left, left, owner, answer)
            over = left if answer == OK else FOREVER
        else:
            ret = 0 if outcome == INFO and rng.random() < 0.5 else ret  # it never returned
            reason = Reason.UNAVAILABLE if outcome == FAIL and rng.random() < 0.5 else Reason.NONE
            book.add(F.ACQUIRE, inv, ret, outcome, process=owner, flags=flags, given_up=ret, reason=reason)
            unavailable, over = bool(reason) or outcome == INFO, 0
        requests.append(Request(inv, ret or math.inf, outcome, left, over, owner % 4, bool(flags), unavailable))
    finish = max(int(moment) for r in requests for moment in (r.inv, r.ret, r.left) if moment < math.inf)
    stalled: set[int] = set()
    silences: list[tuple[int, int]] = []
    for process in range(8, 8 + rng.choice((0, 0, 1, 3))):
        begun, ended = sorted((rng.randint(1, finish), rng.randint(1, finish)))
        if rng.random() < 0.3:
            silences.append((begun, ended))
        else:
            book.add(F.STALL, begun, ended, process=process)
        stalled.update(range(begun, ended))
    book.facts = replace(book.facts, silences=tuple(sorted(silences)))
    if rng.random() < 0.5:
        book.final(finish + 20, finish + 21, -1)  # no worker knows of this read
    missed, judged = _truth(sorted(requests), healed, bound, finish, stalled)
    missed = missed or _in_part(requests, book.facts.permits, healed, bound, stalled)
    missed += _without_answers(sorted(requests, key=lambda r: r.inv), healed, bound, stalled, book.facts.patience)
    result = result_on(book, "recovery")
    if sorted(violation.at for violation in result.violations) != sorted(missed) or result.counters[ASKED] != judged:
        raise Disagreement(f"{result}, not missed at {missed}, {judged} judged: {(healed, bound, requests, stalled)}")
    return compare(result.valid, not missed, requests)


def _truth(requests: list[Request], healed: int, bound: int, finish: int, stalled: set[int]) -> tuple[list[int], int]:
    """When the bound was missed, if it was, and how many keys were judged. stalled: ticks that do not count."""

    def ran(begin: int, end: int) -> int:
        return sum(tick not in stalled for tick in range(begin, end))

    since_before = [r.left for r in requests if r.left and r.ret <= healed]
    free = next(t for t in count(healed) if all(left <= t for left in since_before))
    granted = min(((r.ret, r.inv) for r in requests if r.left and r.ret > healed), default=None)
    asked = [r for r in requests if r.ret > free and (r.ret if r.ret < math.inf else r.inv) > healed]
    for request in asked:
        since = max(free, request.inv)
        passed = next(t for t in count(since) if ran(since, t + 1) > bound)
        if granted is not None and granted[0] <= passed:
            return [], 1
        if finish <= passed:
            break
        refused = any(r.outcome == FAIL and passed < r.ret and (granted is None or r.ret < granted[0]) for r in asked)
        until = finish if granted is None else int(granted[0])
        wanted = [t for t in range(since, until) if any(r.inv <= t < r.ret + bound // 6 for r in asked)]
        counted = [tick for tick in wanted if tick not in stalled]
        if (any(r.inv <= passed < r.ret for r in asked) or refused) and len(counted) > bound:
            return [counted[bound]], 1
    if granted is not None and ran(max(healed, granted[1]), int(granted[0])) <= bound:
        return [], 1
    return [], 0


def _in_part(requests: list[Request], permits: int, healed: int, bound: int, stalled: set[int]) -> list[int]:
    """When a writer, or the last of the permits, had been wanted in vain for the bound though there was room."""
    writers = [r for r in requests if not r.reader]
    if permits == 1 and len(writers) in (0, len(requests)):
        return []
    granted = [r for r in requests if r.left]
    live = [(r.inv, FOREVER) for r in requests if r.outcome == INFO and r.ret > healed]
    live += [(int(r.ret), r.left if r.ret <= healed else r.over) for r in granted]
    free = max([healed, *(r.left for r in granted if r.ret <= healed)])
    waits = [(r.inv, int(r.ret)) for r in writers if r.outcome != INFO and not r.failed]
    reading = [(r.inv, int(r.ret)) for r in requests if r.reader and r.outcome != INFO]

    def at(tick: int, *spans: tuple[int, int]) -> int:
        return sum(begin <= tick < end for begin, end in spans)

    def wanted(tick: int) -> bool:
        if permits > 1:
            return at(tick, *live, *waits) >= permits
        return at(tick, *waits) > 0 and not at(tick, *live, *reading)

    whole = [int(r.ret) for r in granted if r.ret > healed and not r.reader]
    if permits > 1:
        whole = [t for t in range(healed, 99) if at(t, *live) >= permits]
    return [t for t in range(free, min([99, *whole])) if t not in stalled and wanted(t)][bound : bound + 1]


def _without_answers(requests: list[Request], healed: int, bound: int, stalled: set[int], patience: int) -> list[int]:
    """When a worker had asked for the bound and found no service, with another being served meanwhile."""
    missed = []
    for worker in range(4):
        since, last, asked = 0, 0, set[int]()
        for r in (r for r in requests if r.worker == worker and healed < r.ret < math.inf):
            if r.outcome == INFO and r.ret - r.inv >= patience:
                continue
            if not r.failed:
                since, asked = 0, set()
                continue
            if since:
                asked |= {*range(last, min(last + bound // 6, r.inv)), *range(max(r.inv, since), int(r.ret))}
            since, last = since or int(r.ret), int(r.ret)
            ticks = sorted(asked - stalled)
            if len(ticks) > bound:
                served = any(other.left and since <= other.ret <= ticks[bound] for other in requests)
                missed += ticks[bound : bound + 1] if served else []
                break
    return missed


CHECKS: dict[str, Callable[[Random], str]] = {
    "compare-owner": owners,
    **{f"server-{kind}": partial(server, kind=kind) for kind in ("grant", "touch", "session", "quorum", "none")},
    "schedule": schedule,
    "unfenced": unfenced,
    "holder-exclusion": holder,
    "token-order": tokens,
    "no-lost-update": updates,
    "honest-belief": experience.belief,
    "owner-release": experience.owner_release,
    "hand-over": experience.hand_over,
    "honest-renewal": experience.renewal,
    "crash-release": experience.crash_release,
    "fail-fast": experience.calls,
    "recovery": recovery,
    **shapes.CHECKS,
}
