"""Compares the engine for fenced stores with exhaustive search: verdicts, orders and contradictions."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from random import Random
from typing import Any, Final, NamedTuple

from checkers.engines.fenced import fenced_store
from checkers.models.engine_answer import Conflict
from checkers.models.model import Settings
from checkers.models.operations import ByKey
from checkers.models.stores import FencedStore
from checkers.row_format import FIELDS, FINAL, NONE, F, Outcome, Reason
from checkers.tests import brute, generate
from checkers.tests.batches import Batched, ended, names, sorted_history
from checkers.tests.brute import BELOW, FOREVER, Op
from checkers.tests.build import FACTS, Disagreement, compare, replayed

_KINDS: Final = (int(F.READ), int(F.WRITE))
_KEY: Final = [name for name, _ in FIELDS].index("key")

State = tuple[int, int]


def crowded(rng: Random, mode: str) -> list[Op]:
    """Many concurrent accesses under two or three tokens, mostly one of them refused, with values that mostly fit."""
    ops: list[Op] = []
    span = rng.choice((4, 7, 10))
    for n in range(rng.randint(3, 6)):
        inv = rng.randint(1, span)
        write = n == 0 or rng.random() < 0.5
        token = rng.choice((1, 1, 2, 2, 3))
        ops.append(Op(write, "info" if rng.random() < 0.12 else "ok", token, n + 1, n, inv, inv + rng.randint(0, span)))
    for n, op in enumerate(ops):
        if not op.write and op.outcome == "ok":
            seen = [w for w in ops if w.write and (w.token <= op.token or mode.startswith("fence-writes"))]
            ops[n] = op._replace(value=rng.choice([w.value for w in seen] or [NONE]) if rng.random() < 0.9 else NONE)
    if rng.random() < 0.7:
        inv = rng.randint(1, span)
        write = mode.startswith("fence-writes") or rng.random() < 0.6
        ops.append(Op(write, "fail", rng.choice((0, 0, 1, 2)), 8, 50, inv, inv + rng.randint(0, span)))
    if rng.random() < 0.3:
        inv = rng.randint(1, span)
        ops.append(Op(rng.random() < 0.6, "info", rng.choice((1, 2, 3, 4)), 9, 51, inv, inv))
    rng.shuffle(ops)
    return ops


def handed_over(rng: Random) -> list[Op]:
    """Holders that read and write one after another, mostly rightly. Late accesses are refused or get no answer."""
    ops: list[Op] = []
    clock, value, highest = 1, NONE, BELOW
    for n in range(rng.randint(2, 7)):
        token = max(0, len(ops) // 2 + rng.choice((-1, 0, 0, 0, 1)))
        write = rng.random() < 0.5
        outcome = "ok" if token >= highest else "fail"
        if rng.random() < 0.1:
            outcome = "info"
        inv = clock + rng.choice((0, 0, 1, 1, 2))
        clock = inv + rng.randint(0, 2)
        if outcome == "ok" or (outcome == "info" and rng.random() < 0.5 and token >= highest):
            highest = max(highest, token)
            value = n if write else value
        ops.append(Op(write, outcome, token, token + 1, n if write else value, inv, clock))
    if ops and rng.random() < 0.4:
        n = rng.randrange(len(ops))
        op, wrong = ops[n], rng.choice((*range(-1, 7),))
        by_token, by_outcome = op._replace(token=max(0, wrong)), op._replace(outcome=rng.choice(("ok", "fail", "info")))
        ops[n] = rng.choice((by_token, by_outcome, op if op.write else op._replace(value=wrong)))
    return ops


def disturbed(rng: Random, ops: list[Op], mode: str) -> list[Op]:
    """The accesses, now and then with repeated values, reads without a token, or writes of the initial value."""
    luck = rng.random()
    if luck < 0.12:
        ops = [op._replace(value=op.value % 2 if op.value >= 0 else op.value) for op in ops]
    elif luck < 0.15:
        ops = [op._replace(value=NONE) if op.write and rng.random() < 0.3 else op for op in ops]
    elif luck < 0.25 and mode.startswith("fence-reads"):
        ops = [op._replace(token=NONE) if rng.random() < 0.3 and op.outcome == "ok" else op for op in ops]
        if rng.random() < 0.6:
            end = max((op.end for op in ops if op.end < FOREVER), default=0) + rng.randint(0, 2)
            ops = [op for op in ops if op.write or op.token != NONE]
            for value in (rng.choice([NONE, *(op.value for op in ops if op.write)]),) * rng.randint(1, 2):
                ops.append(Op(False, "ok", NONE, 0, value, end + 1, end + 1 + rng.randint(0, 2)))
    return ops


def accesses(rng: Random, mode: str) -> list[Op]:
    luck = rng.random()
    if luck < 0.35:
        ops = generate.accesses(rng, mode=mode, sequential=rng.random() < 0.5)
    elif luck < 0.5:
        ops = generate.dense(rng, mode=mode)
    elif luck < 0.8:
        ops = crowded(rng, mode)
    else:
        ops = handed_over(rng)
    if mode.startswith("fence-writes"):
        ops = [op for op in ops if op.write or op.outcome != "fail"]
    return disturbed(rng, ops, mode)


class Told(NamedTuple):
    """Lanes as rows of `history.DTYPE`, keyed by their numbers; the access of each row. scale: of values, of tokens."""

    lanes: list[list[Op]]
    rows: list[tuple[Any, ...]]
    ops: list[tuple[int, Op]]
    scale: tuple[int, int]


def told(lanes: list[list[Op]], rng: Random) -> Told:
    sparse = rng.choice((1, 1, 10**15))
    far = rng.choice((1, 1, 10**15))
    rows: list[tuple[Any, ...]] = []
    ops: list[tuple[int, Op]] = []
    for key, lane in enumerate(lanes):
        for op in lane:
            write, outcome, token, owner, value, inv, ret = op
            value = value * sparse if value >= 0 else value
            flags = FINAL if not write and token == NONE and rng.random() < 0.5 else 0
            about = (_KINDS[write], *ended(outcome, Reason.STALE_TOKEN), flags)
            ret = 0 if outcome == "info" else ret
            token = token * far if token >= 0 else token
            rows.append((inv, ret, 0, 0, token, owner, value, NONE, 0, owner, 0, key, *about))
            ops.append((key, op))
    if rng.random() < 0.3:  # these never reached the store
        rows.append((3, 4, 0, 0, 9, 1, 77, NONE, 0, 1, 0, 0, F.WRITE, Outcome.FAIL, Reason.UNAVAILABLE, 0))
        ops.append((0, Op(True, "never", 9, 1, 77, 3, 4)))
    return Told(lanes, rows, ops, (sparse, far))


class Shop(NamedTuple):
    """One to three keys, and the first of them in another form."""

    told: Told
    other: Told | None


def shop(rng: Random, *, mode: str) -> Shop:
    lanes = [accesses(rng, mode) for _ in range(rng.choice((1, 1, 2, 3)))]
    if not any(lanes):
        lanes = [[Op(True, "ok", 1, 1, 5, 1, 2)]]
    here = told(lanes, rng)
    if not mode.startswith("fence-reads"):
        return Shop(here, None)
    # Two unanswered reads of one token make no difference, but keep the accesses of a token from being sequential.
    return Shop(here, told([[*lanes[0], *[Op(False, "info", BELOW, 7, NONE, 1, 1)] * 2]], rng))


class Judged:
    """Judges `some` as keys of one history. first: the first key of each; rows: for each key, row → operation."""

    def __init__(self, some: Sequence[Told], mode: str) -> None:
        self.mode = mode
        self.first = list(accumulate((len(one.lanes) for one in some), initial=0))
        keys = self.first.pop()
        table = [(*row[:_KEY], row[_KEY] + key, *row[_KEY + 1 :]) for one, key in self._each(some) for row in one.rows]
        self.history, places = sorted_history(replace(FACTS, store=mode, keys=names(keys)), table)
        self.rows: list[dict[int, Op]] = [{} for _ in range(keys)]
        listed = ((lane + key, op) for one, key in self._each(some) for lane, op in one.ops)
        for place, (key, op) in zip(places, listed, strict=True):
            if op.outcome != "never":
                self.rows[key][place] = op
        self.answer = fenced_store(self.history, Settings())
        self.conflicts: dict[int, list[Conflict]] = {}
        for conflict in self.answer.conflicts:
            self.conflicts.setdefault(conflict.key, []).append(conflict)
        self._model = FencedStore.of(self.history, Settings())
        replayed(self.history, self.answer, self._model)
        self._by_key = ByKey(self.history, (F.READ, F.WRITE))

    def _each(self, some: Sequence[Told]) -> Iterator[tuple[Told, int]]:
        return zip(some, self.first, strict=True)

    def compared(self, key: int, truth: bool) -> str:
        """The word for a key. Raises Disagreement."""
        if key in self.answer.undecided:
            return f"undecided, {'valid' if truth else 'invalid'}"
        conflicts = self.conflicts.get(key, [])
        return compare(not conflicts, truth, (key, self.rows[key], conflicts))

    def refuted(self, key: int) -> None:
        """Raises Disagreement unless each conflict contradicts itself alone, with the rows that `needs` adds."""
        ops, peers = self.rows[key], self._by_key[key]
        by_row = {operation.row: operation for operation in peers}
        for conflict in self.conflicts.get(key, []):
            kept: set[int] = set()
            waiting = list(conflict.rows)
            while waiting:
                row = waiting.pop()
                if row not in kept:
                    kept.add(row)
                    waiting += self._model.needs(by_row[row], peers) or ()
            if brute.fenced([ops[row] for row in kept], self.mode):
                raise Disagreement(f"no contradiction: {conflict}, closed {sorted(kept)}\n{ops}")


def stores(shops: Sequence[Shop], *, mode: str) -> list[str]:
    judged = Judged([one.told for one in shops], mode)
    words, truths = [], []
    for one, first in zip(shops, judged.first, strict=True):
        mine = []
        for key, lane in enumerate(one.told.lanes, first):
            truth = brute.fenced(lane, mode)
            mine.append(judged.compared(key, truth))
            if not truth:
                judged.refuted(key)
            if mine[-1].startswith("undecided") and not _unclear(lane, mode):
                raise Disagreement(f"left undecided: {judged.answer.undecided[key]}\n{lane}")
            if key == first:
                truths.append(truth)
        words.append(mine[0])
    others = [one.other for one in shops if one.other is not None]
    if others:
        # The other form is the same to the rules, so the verdict must be the same, though the engine goes another way.
        again = Judged(others, mode)
        for key, truth in enumerate(truths):
            if key not in again.answer.undecided:
                again.compared(key, truth)
        return [word + _turns(one.told.lanes[0]) for word, one in zip(words, shops, strict=True)]
    return words


def _unclear(lane: Sequence[Op], mode: str) -> bool:
    """Whether the engine may leave the lane to the search."""
    if any(not op.write and op.token == NONE for op in lane) and mode.startswith("fence-reads"):
        return True
    written = [op.value for op in lane if op.write and op.outcome != "fail"]
    read = {op.value for op in lane if not op.write and op.outcome == "ok"}
    return any(value in read and (written.count(value) > 1 or value == NONE) for value in written)


def _turns(lane: Sequence[Op]) -> str:
    """Whether the accesses of each token follow one another."""
    busy: dict[int, int] = {}
    for op in sorted(lane, key=lambda op: op.inv):
        if op.outcome != "fail":
            if busy.get(op.token, 0) >= op.inv:
                return ", overlapping"
            busy[op.token] = op.end
    return ", sequential"


CHECKS: Final = {
    name: Batched(partial(shop, mode=mode), lambda one: one.told.scale, partial(stores, mode=mode))
    for name, mode in (
        ("fenced-store-writes", "fence-writes"),
        ("fenced-store-writes-strict", "fence-writes-strict"),
        ("fenced-store-reads", "fence-reads-and-writes"),
        ("fenced-store-reads-strict", "fence-reads-and-writes-strict"),
    )
}
