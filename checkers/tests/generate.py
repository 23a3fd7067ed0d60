"""Random tiny histories, mostly made from a correct run that is often disturbed: noise is rarely near the edge."""

from dataclasses import replace
from random import Random
from typing import Any

from checkers.row_format import NONE, F
from checkers.tests.brute import FOREVER, Lease, Op
from checkers.tests.build import FAIL, INFO, OK, Book


def accesses(rng: Random, *, mode: str, sequential: bool) -> list[Op]:
    """Operations on one key. Simulates a store that may be faulty, then widens intervals and loses answers."""
    reads, strict = mode.startswith("fence-reads-and-writes"), mode.endswith("strict")
    span = rng.choice((6, 12, 20))
    count = rng.randint(1, 7)
    tokens = rng.randint(1, 4)
    width = rng.choice((1, 3, 6))
    highest, value, owner = -2, NONE, 0
    seen: set[int] = set()
    ops: list[Op] = []
    busy: dict[int, int] = {}
    fault = rng.choice((0.0, 0.0, 0.1, 0.3))
    past: list[int] = [NONE]
    points = sorted(rng.randint(1, span) for _ in range(count))
    drift = rng.random() < 0.5
    for place, point in enumerate(points):
        token = rng.randint(0, tokens - 1)
        if drift:
            token = min(tokens - 1, max(0, place * tokens // count + rng.randint(-1, 1)))
        write = rng.random() < 0.6
        inv, ret = max(1, point - rng.randint(0, width)), point + rng.randint(0, width)
        if sequential:
            if busy.get(token, 0) >= FOREVER:
                continue
            inv = max(inv, busy.get(token, 0) + 1)
            ret = max(ret, inv)
        fenced = write or reads
        if mode == "compare-owner":
            if token not in seen:
                seen.add(token)
                owner = token
            accepted = not write or owner == token
        else:
            accepted = not fenced or (token > highest if strict and write else token >= highest)
        if fenced and rng.random() < fault:
            accepted = not accepted
        outcome = "ok" if accepted else "fail"
        if rng.random() < 0.2:
            outcome = "info"
            if rng.random() < 0.5:
                accepted = accepted and rng.random() < 0.5
        shown = place if write else value
        if accepted:
            if fenced and mode.startswith("fence"):
                highest = max(highest, token)
            if write:
                value = place
                past.append(place)
        if not write and rng.random() < fault:
            shown = rng.choice([*past, place])
        if not write and outcome != "ok":
            shown = NONE
        ops.append(Op(write, outcome, token, token + 1, shown, inv, ret))
        busy[token] = FOREVER if outcome == "info" else ret
    if rng.random() < 0.3:
        ops = [nudged(op, rng) for op in ops] if not sequential else ops
    rng.shuffle(ops)
    return ops


def call(rng: Random, first: int, last: int, longest: int) -> tuple[int, int]:
    """An invocation between `first` and `last`, and its return, up to `longest` later."""
    inv = rng.randint(first, last)
    return inv, inv + rng.randint(0, longest)


def nudged(op: Any, rng: Random) -> Any:
    """The operation, a little earlier or later, and longer or shorter."""
    inv = max(1, op.inv + rng.randint(-2, 2))
    return op._replace(inv=inv, ret=max(inv, op.ret + rng.randint(-2, 2)))


def dense(rng: Random, *, mode: str) -> list[Op]:
    """Highly concurrent operations of two or three tokens, and one refusal below a group of several values."""
    ops = []
    for n in range(rng.randint(3, 6)):
        write = rng.random() < 0.55
        token = rng.choice((1, 1, 1, 2))
        inv = rng.randint(1, 6)
        ops.append(Op(write, "ok", token, token + 1, n, inv, inv + rng.randint(0, 6)))
    written = [op.value for op in ops if op.write]
    for n, op in enumerate(ops):
        if not op.write:
            ops[n] = op._replace(value=rng.choice([*written, NONE] if written else [NONE]))
    inv = rng.randint(1, 8)
    write = rng.random() < 0.7 or not mode.startswith("fence-reads-and-writes")
    ops.append(Op(write, "fail", 0, 1, 99, inv, inv + rng.randint(0, 5)))
    if rng.random() < 0.3:
        inv = rng.randint(1, 8)
        ops.append(Op(rng.random() < 0.5, "info", rng.choice((1, 2, 3)), 9, 98, inv, inv))
    if rng.random() < 0.3:
        inv = rng.randint(1, 9)
        ops.append(Op(False, "ok", 3, 4, rng.choice([*written, NONE]), inv, inv + rng.randint(0, 4)))
    rng.shuffle(ops)
    return ops


def either(rng: Random, mode: str) -> list[Op]:
    return dense(rng, mode=mode) if rng.random() < 0.3 else accesses(rng, mode=mode, sequential=rng.random() < 0.5)


def store_book(ops: list[Op], mode: str) -> Book:
    book = Book(store=mode, keys=("a",))
    outcomes = {"ok": OK, "fail": FAIL, "info": INFO}
    for op in ops:
        add = book.write if op.write else book.read
        add(op.inv, op.ret, op.owner, op.value, outcomes[op.outcome], token=op.token)
    return book


def leases(rng: Random, kind: str) -> list[Lease]:
    """Grants of one key. Simulates one hold after another, widens, then disturbs. Without leases all are released."""
    ttl = FOREVER if kind == "none" else rng.randint(2, 5)
    reach = min(ttl, 5)
    clock = rng.randint(1, 3)
    result: list[Lease] = []
    tokens = rng.random() < 0.4
    for number in range(rng.randint(1, 4)):
        a = clock + rng.choice((0, 0, 0, 1, 2))
        touched = a
        creation, keep_alives = None, []
        if kind == "session" or (kind == "touch" and rng.random() < 0.9):
            at = max(1, a - rng.randint(0, ttl))
            creation = (max(1, at - rng.randint(0, 1)), at + rng.randint(0, 1))
            touched = at if kind == "session" else a
        held = a
        renewals = []
        wide = rng.choice((0, 1, 3))
        ret = a + rng.randint(0, wide)
        for _ in range(rng.choice((0, 0, 1, 2))):
            moment = rng.randint(max(held, ret - 1), held + reach) if ret - 1 <= held + reach else held
            span = (max(a, moment - rng.randint(0, 1)), moment + rng.randint(0, 1))
            if kind in ("grant", "quorum", "none") or (kind == "touch" and rng.random() < 0.5):
                renewals.append(span)
                held = max(held, moment)
            elif creation is not None:
                keep_alives.append((max(span[0], creation[0]), span[1]))
            touched = max(touched, moment)
        end = max(touched + ttl, held)
        release = None
        if kind == "none" or rng.random() < 0.6:
            moment = rng.randint(held, min(max(end, held), held + reach))
            answered = rng.random() < 0.7
            begun = max(ret, moment - rng.randint(0, 2))  # nobody releases before the acquire has returned
            release = (begun, max(begun, moment) + rng.randint(0, 2) if answered else FOREVER)
            end = min(end, max(begun, moment))
        start, token = max(1, a - rng.randint(0, wide)), number if tokens else NONE
        result.append(Lease(start, ret, ttl, tuple(renewals), release, token, creation, tuple(keep_alives)))
        clock = max(1, max(end, a) + (rng.choice((-3, -2, -1)) if rng.random() < 0.35 else 0))
    if rng.random() < 0.3 and result:
        n = rng.randrange(len(result))
        result[n] = replace(result[n], token=rng.randrange(4) if tokens else NONE)
    rng.shuffle(result)
    return result


def lease_book(grants: list[Lease], kind: str, rng: Random) -> Book:
    """The grants as a history, with renewals added that failed or had no answer, which prove nothing."""
    book = Book(lease=kind, keys=("a",))
    for n, lease in enumerate(grants, 1):
        session = n + 100 if lease.creation is not None else 0
        inv = max(1, lease.start - rng.randint(0, 2))
        book.acquire(inv, lease.ret, n, sent=lease.start, ttl=lease.ttl, token=lease.token, session=session)
        for renewal in lease.renewals:
            book.renew(*renewal, n, session=session)
        if rng.random() < 0.3:
            at = lease.ret + rng.randint(0, 6)
            book.renew(at, at, n, rng.choice((FAIL, INFO)), session=session)
        if lease.release is not None:
            inv, ret = lease.release
            if kind == "none" and ret == FOREVER and rng.random() < 0.7:  # given up, and so as free as if released
                book.lost(inv + rng.randint(1, 9), n, base=inv)
                continue
            book.release(inv, ret, n, INFO if ret == FOREVER else OK, session=session)
        if lease.creation is not None:
            book.add(F.SESSION_OPEN, *lease.creation, session=session)
        for keep_alive in lease.keep_alives:
            book.add(F.KEEP_ALIVE, *keep_alive, session=session)
    return book
