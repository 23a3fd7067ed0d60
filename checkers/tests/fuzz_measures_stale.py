"""Measures of what reached the protected resource against their definitions, and against what can have been."""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

from checkers.measures.stale import needless_rejection, stale_write, unfenced_stale_write
from checkers.row_format import INFINITY, NONE
from checkers.tests import brute, generate
from checkers.tests.build import INFO, OK, Book, Disagreement, measured
from checkers.tests.fuzz_measures import same, word


def stale(rng: Random, *, mode: str) -> str:
    """Stale and needless, counted pair by pair; and no store that can have answered so has any."""
    ops = generate.either(rng, mode)
    reads, strict = mode.startswith("fence-reads"), mode.endswith("strict")
    subject = measured(generate.store_book(ops, mode))
    looked = [op for op in ops if op.write or reads]
    late = [any(o.outcome == "ok" and o.token > op.token and o.end < op.inv for o in looked) for op in looked]
    accepted = sum(late[n] and op.outcome == "ok" for n, op in enumerate(looked))
    found = stale_write(subject)
    refused = sum(late[n] and op.outcome == "fail" for n, op in enumerate(looked))
    same((found["accepted"], found["refused"]), (accepted, refused), ops)
    same(found.unexercised is None, any(late), ops)
    needless = sum(
        op.outcome == "fail"
        and not any(
            o.outcome != "fail" and o.inv <= op.ret and o.token + (strict and op.write) > op.token for o in looked
        )
        for op in ops
    )
    same(needless_rejection(subject)["needless"], needless, ops)
    if accepted or needless:
        # What is certain contradicts every order.
        same(brute.fenced(ops, mode), False, ops)
    return word(accepted + needless > 0)


class _Write(NamedTuple):
    owner: int
    inv: int
    ret: int
    at: int
    outcome: Any


def landed(rng: Random) -> str:
    """Writes to a register without a fence, whose true moments are known: what is called late was."""
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
        writes.append(_Write(owner, inv, at + rng.randint(0, 3), at, outcome))
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
    late = sum(write.at > given.get(write.owner, INFINITY) for write in writes)
    certain = int(found["sent_late"] or 0) + int(found["landed_late"] or 0)
    if certain > late:
        raise Disagreement(f"{certain} called late, {late} were:\n{writes}\n{reads}\n{given}")
    seen = {value for _, value in reads}
    sent = sum(w.inv > given.get(w.owner, INFINITY) and (w.outcome == OK or n in seen) for n, w in enumerate(writes))
    proven = sum(
        w.inv <= given.get(w.owner, INFINITY)
        and (w.outcome == OK or n in seen)
        and any(
            inv > given.get(w.owner, INFINITY)
            and (value == NONE or (writes[value].outcome == OK and writes[value].ret < w.inv))
            for inv, value in reads
        )
        for n, w in enumerate(writes)
    )
    same((found["sent_late"], found["landed_late"]), (sent, proven), (writes, reads, given))
    return word(certain > 0)


CHECKS: Final[Mapping[str, Callable[[Random], str]]] = {
    "measures-stale-writes": partial(stale, mode="fence-writes"),
    "measures-stale-strict": partial(stale, mode="fence-writes-strict"),
    "measures-stale-reads": partial(stale, mode="fence-reads-and-writes"),
    "measures-landed-late": landed,
}
