"""Compares the properties of recordings with exhaustive search on random tiny histories."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations
from random import Random

from checkers.engines.lease_problem import posed
from checkers.engines.lease_schedule import conflicts
from checkers.history.holds_and_lease_ends import Hold
from checkers.history.view import View
from checkers.properties.updates import lost_updates
from checkers.row_format import NONE
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
    word = compare(not found, brute.schedulable(holds), holds)
    return f"{word}, {'some' if movable else 'none'} movable"


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
    writes = []
    for value in range(rng.randint(1, 4)):
        owner = rng.randint(1, len(grants))
        inv = grants[owner - 1].ret + rng.randint(0, 9)
        ret = inv + rng.randint(0, 2)
        outcome = rng.choice((OK, OK, INFO, FAIL))
        book.write(inv, ret, owner, value, outcome, token=grants[owner - 1].token)
        seen = rng.random() < 0.5
        if seen and outcome != FAIL:
            book.read(inv + 20, inv + 21, rng.randint(1, len(grants)), value)
        writes.append((inv, grants[owner - 1], outcome == OK or (outcome == INFO and seen)))
    stale = sum(
        accepted and any(inv > later.ret for later in grants if brute.comes_after(later, grant, grants))
        for inv, grant, accepted in writes
    )
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
    "recovery": experience.recovery,
    **shapes.CHECKS,
}
