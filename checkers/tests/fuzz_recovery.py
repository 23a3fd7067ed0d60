"""`recovery` against its definition, tried out moment by moment on random tiny histories."""

import math
from collections.abc import Callable
from itertools import count
from random import Random
from typing import NamedTuple

from checkers.properties.recovery import ASKED
from checkers.row_format import SHARED, F, Outcome
from checkers.tests.build import FAIL, INFO, OK, Book
from checkers.tests.compare import Disagreement, compare, result_on


class Request(NamedTuple):
    """An acquire; `ret` is infinite where it never returned, `left` 0 where nothing was granted."""

    inv: int
    ret: float
    outcome: Outcome
    left: int


def recovered(rng: Random) -> str:
    """One key after one heal: holders from before it, readers, several permits, requests that end in every way."""
    healed, bound = rng.randint(4, 12), rng.randint(2, 10)
    book = Book(keys=("a",), bounds={"recovery": bound}, fault_names=("cut",), permits=rng.choice((1, 1, 2)))
    book.fault("cut", 2, healed)
    requests = []
    for owner in range(1, rng.randint(2, 7)):
        inv, flags = rng.randint(1, 30), SHARED * (rng.random() < 0.3)
        ret, outcome = inv + rng.randint(0, 12), rng.choice((OK, OK, FAIL, INFO))
        left = ret + rng.randint(0, 15) if outcome == OK else 0
        if outcome == OK:
            book.acquire(inv, ret, owner, flags=flags).release(left, left, owner)
        else:
            ret = 0 if outcome == INFO and rng.random() < 0.5 else ret  # it never returned
            book.add(F.ACQUIRE, inv, ret, outcome, process=owner, flags=flags)
            book.rows[-1] = (inv, ret, *book.rows[-1][2:])  # when the answer was given up
        requests.append(Request(inv, ret or math.inf, outcome, left))
    finish = max(int(moment) for r in requests for moment in (r.inv, r.ret, r.left) if moment < math.inf)
    stalled: set[int] = set()
    for process in range(8, 8 + rng.choice((0, 0, 1, 3))):
        begun, ended = sorted((rng.randint(1, finish), rng.randint(1, finish)))
        book.add(F.STALL, begun, ended, process=process)
        stalled.update(range(begun, ended))
    missed, judged = _truth(sorted(requests), healed, bound, finish, stalled)
    result = result_on(book, "recovery")
    if [violation.at for violation in result.violations] != missed or result.counters[ASKED] != judged:
        drawn = (healed, bound, requests, stalled)
        raise Disagreement(f"{result}, not missed at {missed}, {judged} judged: {drawn}")
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
        waiting = any(r.inv <= passed < r.ret for r in asked)
        refused = any(r.outcome == FAIL and passed < r.ret and (granted is None or r.ret < granted[0]) for r in asked)
        if waiting or refused:
            return [passed], 1
    if granted is not None and ran(max(healed, granted[1]), int(granted[0])) <= bound:
        return [], 1
    return [], 0


CHECKS: dict[str, Callable[[Random], str]] = {"recovery": recovered}
