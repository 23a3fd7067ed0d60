"""Compares measures with definitions restated pair by pair and instant by instant. ``invalid``: something was found."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

from checkers.history.counting import apart, below, crossing, meeting
from checkers.measures.availability import availability_gap
from checkers.measures.fairness import bypass
from checkers.measures.holders import definite_overlap, possible_overlap
from checkers.measures.latency import kaplan_meier, survival_quantile
from checkers.measures.stale import needless_rejection, stale_write, unfenced_stale_write
from checkers.measures.unanswered_grants import phantom_success, token_gap
from checkers.row_format import INFINITY, NONE, F, Reason
from checkers.tests import brute, generate
from checkers.tests.build import FAIL, INFO, OK, Book, Disagreement, measured


def same(said: object, truth: object, what: object) -> None:
    if said != truth:
        raise Disagreement(f"measured {said}, restated {truth}:\n{what}")


def word(found: bool) -> str:
    return "invalid" if found else "valid"


def counting(rng: Random) -> str:
    """The arithmetic that counts pairs without looking at each pair."""
    n, top = rng.randint(0, 7), rng.choice((2, 5, 9))

    def numbers(count: int = n) -> list[int]:
        return [rng.randint(1, top) for _ in range(count)]

    values, prefix, bound = numbers(), [rng.randint(0, n) for _ in range(4)], numbers(4)
    fewer = [sum(value < b for value in values[:p]) for p, b in zip(prefix, bound, strict=True)]
    same(below(np.array(values, int), np.array(prefix), np.array(bound)).tolist(), fewer, (values, prefix, bound))
    key, latest, end = [rng.randint(0, 2) for _ in range(n)], numbers(), numbers()
    spans = list(zip(key, latest, end, strict=True))
    crossed = sum(a[0] == b[0] and a[2] > b[1] and b[2] > a[1] for a, b in combinations(spans, 2))
    keys = np.array(key, int)
    places = apart((keys, np.array(latest, int)), (keys, np.array(end, int))).places
    same(int(crossing(*places).sum()), crossed, spans)
    begin = [min(span[1:]) for span in spans]
    over = [max(span[1:]) for span in spans]
    closed = list(zip(key, begin, over, strict=True))
    touch = sum(a[0] == b[0] and a[1] <= b[2] and b[1] <= a[2] for a, b in combinations(closed, 2))
    begins, ends = apart((keys, np.array(begin, int)), (keys, np.array(over, int))).places
    same(meeting(begins, ends), touch, closed)
    return word(crossed > 0)


def overlaps(rng: Random, *, kind: str) -> str:
    """Counts pairs that cannot follow one another by any choice of instants, and pairs whose widest times meet."""
    leases = generate.leases(rng, kind)
    subject = measured(generate.lease_book(leases, kind, rng))
    pairs = [[replace(lease, token=NONE) for lease in pair] for pair in combinations(leases, 2)]
    definite = [not brute.told(pair, kind) for pair in pairs]
    found = definite_overlap(subject)
    same(found["pairs"], sum(definite), leases)
    by_row = {hold.row: leases[hold.owner - 1] for hold in subject.holds}
    for rows in found.rows:
        same(brute.told([replace(by_row[row], token=NONE) for row in rows], kind), False, (rows, leases))
    same(bool(found.rows), any(definite), leases)
    freed = (hold.freed if hold.freed < INFINITY else 0 for hold in subject.holds)
    spans = [(hold.start, max(hold.core_end, hold.ret, end)) for hold, end in zip(subject.holds, freed, strict=True)]
    touching = sum(a[0] <= b[1] and b[0] <= a[1] for a, b in combinations(spans, 2))
    same(possible_overlap(subject)["pairs"], touching - sum(definite), leases)
    return word(any(definite))


def readers(rng: Random) -> str:
    """The same with readers: two readers are no pair."""
    book = Book(keys=("a", "b"), lease="grant", ttl=rng.choice((2, 50)))
    spans = []
    for owner in range(1, rng.randint(2, 7)):
        inv = rng.randint(1, 12)
        ret, key, shared = inv + rng.randint(0, 3), rng.randint(0, 1), rng.random() < 0.5
        gone = ret + rng.randint(0, 6)
        book.acquire(inv, ret, owner, key=key, flags=4 * shared).release(gone, gone + 1, owner, key=key)
        spans.append((key, shared, ret, min(max(gone, inv), inv + book.facts.ttl)))
    pairs = [
        min(a[3], b[3]) - max(a[2], b[2])
        for a, b in combinations(spans, 2)
        if a[0] == b[0] and not (a[1] and b[1]) and a[3] > b[2] and b[3] > a[2]
    ]
    found = definite_overlap(measured(book))
    same((found["pairs"], found["longest"]), (len(pairs), max([0, *pairs])), spans)
    return word(bool(pairs))


def tokens(rng: Random) -> str:
    """Matches skipped tokens with the unknown acquires that can have taken them, by trying all matchings."""
    book = Book(keys=("a",), ttl=5)
    token, clock = 1, 1
    seen, asked = [], []
    for owner in range(1, rng.randint(3, 6)):
        ret = clock + rng.randint(0, 4)
        book.acquire(clock, ret, owner, token=token)
        seen.append((token, ret))
        token += 1 if rng.random() < 0.7 else rng.randint(2, 3)
        clock += rng.randint(1, 4)
    for n in range(rng.randint(0, 3)):
        asked.append(rng.randint(1, clock + 2))
        book.acquire(asked[-1], 0, 100 + n, outcome=INFO)
    skipped = [t for t in range(1, seen[-1][0]) if t not in {s for s, _ in seen}]
    deadlines = [min(ret for other, ret in seen if other > t) for t in skipped]

    def matched(left: list[int], free: list[int]) -> int:
        if not left:
            return 0
        taken = [n for n, inv in enumerate(free) if inv <= left[0]]
        return max([matched(left[1:], free), *(1 + matched(left[1:], free[:n] + free[n + 1 :]) for n in taken)])

    found = token_gap(measured(book))
    steps = sorted(b[0] - a[0] for a, b in pairwise(seen))
    if steps[-(-len(steps) // 2) - 1] != 1:
        same(found.values, (), seen)
        return "valid, no counter"
    unexplained = len(skipped) - matched(deadlines, asked)
    same((found["missing"], found["unexplained"]), (len(skipped), unexplained), (seen, asked))
    return word(unexplained > 0)


def phantoms(rng: Random) -> str:
    """A mutex with tries and lost answers. No order with fewer unknown acquires than measured explains the refusals."""
    book = Book(keys=("a",), lease="none", ttl=0)
    ops: list[tuple[str, int, int, int]] = []
    holder, clock = 0, 1
    for owner in range(1, rng.randint(3, 6)):
        inv = clock
        clock += rng.randint(0, 2)
        if holder:
            ret = clock + rng.randint(0, 1)
            book.add(F.TRY_ACQUIRE, inv, ret, FAIL, process=owner, reason=Reason.HELD)
            ops.append(("refused", owner, inv, ret))
        else:
            unknown = rng.random() < 0.45
            ret = clock + rng.randint(0, 1)
            book.acquire(inv, ret, 0 if unknown else owner, process=owner, outcome=INFO if unknown else OK)
            ops.append(("unknown" if unknown else "granted", owner, inv, INFINITY if unknown else ret))
            if not unknown or rng.random() < 0.7:
                holder = owner
        if holder and rng.random() < 0.5:
            if ("unknown", holder) not in [op[:2] for op in ops]:
                inv = max(clock, *(op[3] for op in ops if op[:2] == ("granted", holder)))
                book.release(inv, inv + 1, holder)
                ops.append(("released", holder, inv, inv + 1))
                clock = inv + 1
            holder = 0
        clock += rng.randint(0, 2)
    found = phantom_success(measured(book))
    said = 0 if not found.values else int(found["by_refusal"] or 0)
    least = _fewest_unknown(ops)
    if least is not None and said > least:
        raise Disagreement(f"{said} phantoms told, {least} explain all:\n{ops}")
    return word(said > 0)


def _fewest_unknown(ops: list[tuple[str, int, int, int]]) -> int | None:
    """The fewest unknown acquires in an order that explains the answers. Their holders may let go unseen."""

    def least(left: frozenset[int], holder: int) -> int | None:
        certain = [n for n in left if ops[n][0] != "unknown"]
        if not certain:
            return 0
        horizon = min(ops[n][3] for n in left)
        found = []
        if holder and any(op[:2] == ("unknown", holder) for op in ops):
            # A client that does not know that it holds lets go at some time: its session ends.
            found.append(least(left, 0))
        for n in left:
            what, owner, inv, _ = ops[n]
            if inv > horizon:
                continue
            rest = left - {n}
            if what == "refused" and holder:
                found.append(least(rest, holder))
            elif what in ("granted", "unknown") and not holder:
                after = least(rest, owner)
                found.append(None if after is None else after + (what == "unknown"))
            elif what == "released" and holder == owner:
                found.append(least(rest, 0))
        return min((one for one in found if one is not None), default=None)

    return least(frozenset(range(len(ops))), 0)


def gaps(rng: Random) -> str:
    """The time in which somebody asked and nobody held, instant by instant."""
    book = Book(keys=("a", "b"), ttl=rng.choice((3, 100)))
    asked: list[tuple[int, int, int]] = []
    cores: list[tuple[int, int, int]] = []
    granted = []
    for owner in range(1, rng.randint(2, 6)):
        key, inv = rng.randint(0, 1), rng.randint(1, 12)
        ret = inv + rng.randint(0, 5)
        asked.append((key, inv, ret))
        if rng.random() < 0.5:
            gone = ret + rng.randint(0, 4)
            book.acquire(inv, ret, owner, key=key).release(gone, gone + 1, owner, key=key)
            cores.append((key, ret, min(gone, inv + book.facts.ttl)))
            granted.append((key, ret))
        else:
            book.acquire(inv, ret, 0, process=owner, key=key, outcome=FAIL, reason=Reason.TIMEOUT)
    lengths: list[int] = []
    waited = 0
    for key in (0, 1):
        going = 0
        for t in range(1, 40):
            wanted = any(k == key and b <= t < e for k, b, e in asked)
            free = wanted and not any(k == key and b <= t < e for k, b, e in cores)
            waited += wanted
            if going and (not free or (key, t) in granted):
                lengths.append(going)
                going = 0
            going += free
    found = availability_gap(measured(book))
    truth = (max(lengths, default=0), sum(lengths), waited, len(lengths))
    same(tuple(found[name] for name in ("longest", "total", "asked", "gaps")), truth, (asked, cores))
    return word(truth[0] > 2)


def passed(rng: Random) -> str:
    """Counts, pair by pair, the grants that went first though they were asked for later."""
    book = Book(keys=("a", "b"), ttl=30)
    holds = []
    slowest = 0
    queues = rng.random() < 0.3
    for owner in range(1, rng.randint(2, 7)):
        key, inv = rng.randint(0, 1), rng.randint(1, 20)
        queued = inv + rng.randint(0, 1) if queues else NONE
        ret = max(inv, queued) + rng.randint(0, 9)
        gone = ret + rng.randint(0, 3)
        book.acquire(inv, ret, owner, key=key, base=queued)
        took = rng.choice((0, 0, 0, 1, 2))
        book.release(gone, gone + took, owner, key=key)
        slowest = max(slowest, took)
        end = min(gone, inv + 30)
        if ret < end:
            holds.append((key, inv, queued, ret, end))
    late = {hold: hold[2] if queues else hold[1] + slowest for hold in holds}
    times = [sum(o[0] == hold[0] and o[1] > late[hold] and o[4] <= hold[3] for o in holds) for hold in holds]
    found = bypass(measured(book))
    truth = (sum(times), sum(time > 0 for time in times), max(times, default=0))
    same((found["bypasses"], found["passed"], found["most"]), truth, holds)
    return word(any(times))


def survival(rng: Random) -> str:
    """Kaplan and Meier's product, in fractions, one time after another."""
    lasted = [rng.randint(1, 6) for _ in range(rng.randint(1, 9))]
    done = [rng.random() < 0.7 for _ in lasted]
    permille = rng.choice((500, 900, 990, 999, 250))
    remaining, truth = Fraction(1), None
    for time in sorted(set(lasted)):
        there = sum(one >= time for one in lasted)
        ended = sum(one == time and over for one, over in zip(lasted, done, strict=True))
        remaining *= 1 - Fraction(ended, there)
        if remaining <= 1 - Fraction(permille, 1000):
            truth = time
            break
    same(survival_quantile(*kaplan_meier(np.array(lasted), np.array(done)), permille), truth, (lasted, done, permille))
    return word(truth is None)


def attempts(rng: Random) -> str:
    """A foreign mutex, whose holders come again. Only holds of two different holders overlap."""
    book = Book(trial="", lock="", store="", keys=("a",), ttl=0)
    holds: list[tuple[int, int, int]] = []
    free = dict.fromkeys((1, 2, 3), 1)
    for _ in range(rng.randint(1, 6)):
        owner = rng.choice((1, 2, 3))
        inv, ret = generate.call(rng, free[owner], free[owner] + 3, 3)
        book.acquire(inv, ret, owner)
        begun, ended = ret, INFINITY
        free[owner] = ret + rng.randint(0, 4)
        if rng.random() < 0.8:
            ended = free[owner]
            outcome = rng.choice((OK, OK, INFO, FAIL))
            book.release(ended, ended + 1, owner, outcome)
            ended = INFINITY if outcome == FAIL else ended
            free[owner] += 2
        # A holder that asks again has given up what it had.
        holds = [(o, b, min(e, inv) if o == owner else e) for o, b, e in holds]
        holds.append((owner, begun, ended))
    pairs = sum(a[0] != b[0] and a[2] > b[1] and b[2] > a[1] for a, b in combinations(holds, 2))
    same(definite_overlap(measured(book))["pairs"], pairs, holds)
    return word(pairs > 0)


def stale(rng: Random, *, mode: str) -> str:
    """Counts accepted stale accesses and needless refusals pair by pair. No correct store has any of them."""
    ops = generate.either(rng, mode)
    reads, strict = mode.startswith("fence-reads"), mode.endswith("strict")
    subject = measured(generate.store_book(ops, mode))
    looked = [op for op in ops if op.write or reads]
    kept = [op for op in looked if op.outcome != "fail"]
    late = [any(o.outcome == "ok" and o.token > op.token and o.end < op.inv for o in looked) for op in looked]
    accepted = sum(late[n] and op.outcome == "ok" for n, op in enumerate(looked))
    found = stale_write(subject)
    refused = sum(late[n] and op.outcome == "fail" for n, op in enumerate(looked))
    same((found["accepted"], found["refused"]), (accepted, refused), ops)
    same(found.unexercised is None, any(late), ops)
    barred = [any(o.inv <= op.ret and o.token + (strict and op.write) > op.token for o in kept) for op in ops]
    needless = sum(op.outcome == "fail" and not bar for op, bar in zip(ops, barred, strict=True))
    same(needless_rejection(subject)["needless"], needless, ops)
    if accepted or needless:
        same(brute.fenced(ops, mode), False, ops)  # what is certain contradicts every order
    return word(accepted + needless > 0)


class _Write(NamedTuple):
    lost: int
    inv: int
    ret: int
    at: int
    outcome: Any


def landed(rng: Random) -> str:
    """Writes to a register without a fence, whose true moments are known. A write that is called late must be late."""
    book = Book(keys=("a",), store="unfenced", ttl=1000)
    clock, holders = 1, rng.randint(2, 3)
    given: dict[int, int] = {}
    begins: dict[int, int] = {}
    for owner in range(1, holders + 1):
        book.acquire(clock, clock + 1, owner, token=owner)
        begins[owner], given[owner - 1] = clock + 1, clock + 1
        clock += rng.randint(2, 8)
    writes = []
    for number in range(rng.randint(1, 3)):
        owner = rng.randint(1, holders)
        inv, at = generate.call(rng, begins[owner], begins[owner] + 8, 8)
        outcome = rng.choice((OK, OK, INFO))
        writes.append(_Write(given.get(owner, INFINITY), inv, at + rng.randint(0, 3), at, outcome))
        book.write(inv, writes[-1].ret, owner, number, outcome)
    reads = []
    for _ in range(rng.randint(1, 4)):
        owner = rng.randint(1, holders)
        inv, at = generate.call(rng, begins[owner], begins[owner] + 14, 3)
        before = [n for n, write in enumerate(writes) if (write.at, n) < (at, -1)]
        value = max(before, key=lambda n: (writes[n].at, n), default=NONE)
        book.read(inv, at + rng.randint(0, 3), owner, value)
        reads.append((inv, value))
    found = unfenced_stale_write(measured(book))
    late = sum(write.at > write.lost for write in writes)
    certain = int(found["sent_late"] or 0) + int(found["landed_late"] or 0)
    if certain > late:
        raise Disagreement(f"{certain} called late, {late} were:\n{writes}\n{reads}\n{given}")
    seen = {value for _, value in reads}
    happened = [w for n, w in enumerate(writes) if w.outcome == OK or n in seen]
    sent = sum(w.inv > w.lost for w in happened)
    over = [(inv, 0 if n == NONE else writes[n].ret) for inv, n in reads if n == NONE or writes[n].outcome == OK]
    proven = sum(w.inv <= w.lost and any(inv > w.lost and ret < w.inv for inv, ret in over) for w in happened)
    same((found["sent_late"], found["landed_late"]), (sent, proven), (writes, reads, given))
    return word(certain > 0)


CHECKS: Final[Mapping[str, Callable[[Random], str]]] = {
    "measures-counting": counting,
    **{f"measures-overlap-{kind}": partial(overlaps, kind=kind) for kind in ("grant", "touch")},
    "measures-overlap-readers": readers,
    "measures-token-gap": tokens,
    "measures-phantom": phantoms,
    "measures-availability": gaps,
    "measures-bypass": passed,
    "measures-survival": survival,
    "measures-attempts": attempts,
    "measures-stale-writes": partial(stale, mode="fence-writes"),
    "measures-stale-strict": partial(stale, mode="fence-writes-strict"),
    "measures-stale-reads": partial(stale, mode="fence-reads-and-writes"),
    "measures-landed-late": landed,
}
