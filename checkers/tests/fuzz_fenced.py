"""The engines for fencing tokens and fenced stores against exhaustive search: verdicts, orders and contradictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from checkers.engines.engine import Answer
from checkers.engines.fenced import fenced_store
from checkers.engines.tokens import fencing_tokens
from checkers.history import History
from checkers.models.model import Model, Settings
from checkers.models.stores import FencedStore
from checkers.models.tokens import FencingTokens
from checkers.operations import ByKey
from checkers.tests import brute, generate
from checkers.tests.brute import FOREVER, Op
from checkers.tests.build import FAIL, INFO, OK, Book
from checkers.tests.compare import Disagreement, compare
from checkers.wire import FINAL, NESTED, NONE, SHARED, F, Outcome, Reason

OUTCOMES: Final = {"ok": OK, "fail": FAIL, "info": INFO}
BELOW: Final = -9
"""A token below all others that are used here."""

State = tuple[int, int]


def fenced(mode: str) -> brute.Step:
    """The rules of a fenced store, said again. State: (highest token, value)."""
    reads, strict = mode.startswith("fence-reads"), mode.endswith("strict")

    def step(state: State, op: Op) -> Iterator[State]:
        highest, value = state
        if not op.write and (not reads or op.token == NONE):
            if op.outcome == "info" or (op.outcome == "ok" and op.value == value):
                yield state
            return
        fits = op.token > highest or (op.token == highest and not (op.write and strict))
        if fits and op.outcome != "fail":
            if op.write:
                yield op.token, op.value
            elif op.outcome == "info" or op.value == value:
                yield op.token, value
        if not fits and op.outcome != "ok":
            yield state

    return step


def crowded(rng: Random, mode: str) -> list[Op]:
    """Many accesses at once under two or three tokens, one of them refused, values that mostly fit."""
    ops: list[Op] = []
    span = rng.choice((4, 7, 10))
    for n in range(rng.randint(3, 6)):
        inv = rng.randint(1, span)
        write = n == 0 or rng.random() < 0.5
        token = rng.choice((1, 1, 2, 2, 3))
        outcome = "info" if rng.random() < 0.12 else "ok"
        ops.append(Op(write, outcome, token, n + 1, n, inv, inv + rng.randint(0, span)))
    for n, op in enumerate(ops):
        if not op.write and op.outcome == "ok":
            seen = [w for w in ops if w.write and (w.token <= op.token or mode.startswith("fence-writes"))]
            ops[n] = replace(op, value=rng.choice([w.value for w in seen] or [NONE]) if rng.random() < 0.9 else NONE)
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
    """Holders one after another that read and write in turn, and mostly do right; late ones are refused or lost."""
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
        wrong = rng.choice((*range(-1, 7),))
        ops[n] = rng.choice(
            (
                replace(ops[n], token=max(0, wrong)),
                replace(ops[n], outcome=rng.choice(("ok", "fail", "info"))),
                ops[n] if ops[n].write else replace(ops[n], value=wrong),
            )
        )
    return ops


def disturbed(rng: Random, ops: list[Op], mode: str) -> list[Op]:
    """Now and then with values that repeat, reads without a token, and the initial value written."""
    luck = rng.random()
    if luck < 0.12:
        ops = [replace(op, value=op.value % 2 if op.value >= 0 else op.value) for op in ops]
    elif luck < 0.15:
        ops = [replace(op, value=NONE) if op.write and rng.random() < 0.3 else op for op in ops]
    elif luck < 0.25 and mode.startswith("fence-reads"):
        ops = [replace(op, token=NONE) if rng.random() < 0.3 and op.outcome == "ok" else op for op in ops]
        if rng.random() < 0.6:
            end = max((op.end for op in ops if op.end < FOREVER), default=0) + rng.randint(0, 2)
            ops = [op for op in ops if op.write or op.token != NONE]
            values = [NONE, *(op.value for op in ops if op.write)]
            for value in (rng.choice(values),) * rng.randint(1, 2):
                ops.append(Op(False, "ok", NONE, 0, value, end + 1, end + 1 + rng.randint(0, 2)))
    return ops


def accesses(rng: Random, mode: str) -> list[Op]:
    """Of one key."""
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


def store_history(lanes: Sequence[Sequence[Op]], mode: str, rng: Random) -> tuple[History, dict[tuple[int, int], Op]]:
    """A key for each lane, and in `dict` what stands in which row. Values and tokens may be sparse."""
    book = Book(store=mode, keys=tuple("abcd"[: len(lanes)]))
    sparse = rng.choice((1, 1, 10**15))
    far = rng.choice((1, 1, 10**15))
    ops: list[tuple[int, Op]] = []
    for key, lane in enumerate(lanes):
        for op in lane:
            add = book.write if op.write else book.read
            value = op.value * sparse if op.value >= 0 else op.value
            token = op.token * far if op.token >= 0 else op.token
            flags = FINAL if not op.write and op.token == NONE and rng.random() < 0.5 else 0
            add(op.inv, op.ret, op.owner, value, OUTCOMES[op.outcome], token=token, key=key, flags=flags)
            ops.append((key, op))
    if rng.random() < 0.3:  # these never reached the store
        book.write(3, 4, 1, 77, FAIL, reason=Reason.UNAVAILABLE, token=9)
        ops.append((0, Op(True, "never", 9, 1, 77, 3, 4)))
    order = sorted(range(len(ops)), key=lambda n: ops[n][1].inv)
    return book.history(), {(ops[n][0], row): ops[n][1] for row, n in enumerate(order)}


def store(rng: Random, *, mode: str) -> str:
    """One to three keys."""
    lanes = [accesses(rng, mode) for _ in range(rng.choice((1, 1, 2, 3)))]
    if not any(lanes):
        lanes = [[Op(True, "ok", 1, 1, 5, 1, 2)]]
    history, rows = store_history(lanes, mode, rng)
    answer = fenced_store(history, Settings())
    model = FencedStore.of(history, Settings())
    words = []
    for key, lane in enumerate(lanes):
        here = {row: op for (k, row), op in rows.items() if k == key and op.outcome != "never"}
        truth = brute.linearizable(lane, (BELOW, NONE), fenced(mode))
        words.append(_compared(answer, key, here, truth, fenced(mode)))
        if not truth:
            _refuted(answer, key, here, history, model, fenced(mode))
        if words[-1].startswith("undecided") and not _unclear(lane, mode):
            raise Disagreement(f"left undecided: {answer.undecided[key]}\n{lane}")
    if mode.startswith("fence-reads"):
        words[0] += _both_forms(rng, lanes[0], mode)
    return words[0]


def _compared(answer: Answer, key: int, ops: dict[int, Op], truth: bool, step: brute.Step) -> str:
    if key in answer.undecided:
        return f"undecided, {'valid' if truth else 'invalid'}"
    bad = any(conflict.key == key for conflict in answer.conflicts)
    word = compare(not bad, truth, (key, ops, answer.conflicts, answer.undecided))
    if truth:
        order = [row for row in answer.order().tolist() if row in ops]
        _replayed(order, ops, step)
    return word


def _replayed(order: Sequence[int], ops: dict[int, Op], step: brute.Step) -> None:
    """The order holds every answered operation once, respects real time, and is one that the rules allow."""
    missing = {row for row, op in ops.items() if op.outcome != "info"} - set(order)
    latest = 0
    states = {(BELOW, NONE)}
    for row in order:
        op = ops[row]
        if op.end < latest:
            break
        latest = max(latest, op.inv)
        states = {new for state in states for new in step(state, _answered(op, state))}
        if not states:
            break
    else:
        if not missing and len(set(order)) == len(order):
            return
    raise Disagreement(f"not an order of linearization points: {order}, missing {missing}\n{ops}")


def _answered(op: Op, state: State) -> Op:
    """An unknown operation that is listed took effect."""
    if op.outcome != "info":
        return op
    return replace(op, outcome="ok", value=op.value if op.write else state[1])


def _refuted(answer: Answer, key: int, ops: dict[int, Op], history: History, model: Model, step: brute.Step) -> None:
    """What contradicts itself does so alone, with what `needs` says it cannot do without."""
    peers = ByKey(history, (F.READ, F.WRITE))[key]
    by_row = {operation.row: operation for operation in peers}
    for conflict in answer.conflicts:
        if conflict.key != key:
            continue
        kept: set[int] = set()
        waiting = list(conflict.rows)
        while waiting:
            row = waiting.pop()
            if row not in kept:
                kept.add(row)
                waiting += model.needs(by_row[row], peers) or ()
        if brute.linearizable([ops[row] for row in kept], (BELOW, NONE), step):
            raise Disagreement(f"no contradiction: {conflict}, closed {sorted(kept)}\n{ops}")


def _unclear(lane: Sequence[Op], mode: str) -> bool:
    """Whether the engine may leave it to the search."""
    if any(not op.write and op.token == NONE for op in lane) and mode.startswith("fence-reads"):
        return True
    written = [op.value for op in lane if op.write and op.outcome != "fail"]
    read = {op.value for op in lane if not op.write and op.outcome == "ok"}
    return any(value in read and (written.count(value) > 1 or value == NONE) for value in written)


def _both_forms(rng: Random, lane: Sequence[Op], mode: str) -> str:
    """Two unanswered reads of one token make no difference, but keep the accesses of a token from being sequential."""
    truth = brute.linearizable(lane, (BELOW, NONE), fenced(mode))
    reads = [Op(False, "info", BELOW, 7, NONE, 1, 1)] * 2
    history, rows = store_history([[*lane, *reads]], mode, rng)
    answer = fenced_store(history, Settings())
    here = {row: op for (_, row), op in rows.items() if op.outcome != "never"}
    if not answer.undecided:
        _compared(answer, 0, here, truth, fenced(mode))
    busy: dict[int, int] = {}
    for op in sorted(lane, key=lambda op: op.inv):
        if op.outcome != "fail":
            if busy.get(op.token, 0) >= op.inv:
                return ", overlapping"
            busy[op.token] = op.end
    return ", sequential"


Grant = tuple[int, int, int, Outcome, int]
"""inv, ret, token, outcome, flags."""


def tokens(rng: Random) -> str:
    """Grants with tokens, some of readers, some inside their own hold, some without a token or an answer."""
    book = Book(keys=("a", "b"))
    lanes: list[list[Grant]] = [[], []]
    wide = rng.choice((0, 2, 5))
    for number in range(rng.randint(1, 6)):
        inv = number * 2 + rng.randint(1, 5)
        token = number if rng.random() < 0.75 else rng.randint(-1, 5)
        flags = rng.choices((0, SHARED, NESTED), (5, 3, 1))[0]
        if flags == SHARED and lanes[0] and rng.random() < 0.5:
            token = lanes[0][-1][2]
        outcome = rng.choices((OK, FAIL, INFO), (8, 1, 1))[0]
        lanes[rng.random() < 0.2].append((inv, inv + rng.randint(0, wide), token, outcome, flags))
    if rng.random() < 0.1:
        lanes[0] = [(g[0], g[1], 6 - g[2] if g[2] >= 0 else g[2], g[3], g[4]) for g in lanes[0]]
    listed = sorted(((grant, key) for key, lane in enumerate(lanes) for grant in lane), key=lambda item: item[0][0])
    for owner, ((inv, ret, token, outcome, flags), key) in enumerate(listed, 1):
        book.acquire(inv, ret, owner, outcome=outcome, token=token, key=key, flags=flags)
    history = book.history()
    answer = fencing_tokens(history, Settings())
    assert not answer.undecided
    truths = []
    for key, lane in enumerate(lanes):
        counted = [(inv, ret, token, flags) for inv, ret, token, outcome, flags in lane if outcome == OK]
        truths.append(_increasing([(*g[:3], g[3] & SHARED) for g in counted if g[2] != NONE and not g[3] & NESTED]))
        compare(all(conflict.key != key for conflict in answer.conflicts), truths[key], (key, lane, answer.conflicts))
    for conflict in answer.conflicts:
        pair = [listed[row][0] for row in conflict.rows]
        if _increasing([(inv, ret, token, flags & SHARED) for inv, ret, token, _, flags in pair]):
            raise Disagreement(f"no contradiction: {conflict}\n{lanes}")
    for key in (0, 1):
        if truths[key]:
            _tokens_replayed([row for row in answer.order().tolist() if listed[row][1] == key], listed, history, key)
    return "valid" if all(truths) else "invalid"


def _increasing(grants: Sequence[tuple[int, int, int, int]]) -> bool:
    """Whether some order of (inv, ret, token, shared) respects real time and has tokens that increase."""

    def possible(left: frozenset[int], highest: int, shared: int) -> bool:
        if not left:
            return True
        horizon = min(grants[n][1] for n in left)
        return any(
            possible(left - {n}, token, reader)
            for n in left
            for inv, _, token, reader in [grants[n]]
            if inv <= horizon and (token > highest or (token == highest and shared and reader))
        )

    return possible(frozenset(range(len(grants))), BELOW, 0)


def _tokens_replayed(order: Sequence[int], listed: Sequence[tuple[Grant, int]], history: History, key: int) -> None:
    model = FencingTokens()
    operations = {operation.row: operation for operation in ByKey(history, (F.ACQUIRE,))[key]}
    state = model.initial
    latest = 0
    for row in order:
        (inv, ret, _, _, _), _ = listed[row]
        state = model.step(state, operations[row])
        if ret < latest or not isinstance(state, tuple):
            raise Disagreement(f"not an order of linearization points: {order}\n{listed}")
        latest = max(latest, inv)
    if {row for row, (grant, k) in enumerate(listed) if k == key and grant[3] == OK} != set(order):
        raise Disagreement(f"not all grants: {order}\n{listed}")


CHECKS: Final = {
    "fencing-tokens": tokens,
    "fenced-store-writes": partial(store, mode="fence-writes"),
    "fenced-store-writes-strict": partial(store, mode="fence-writes-strict"),
    "fenced-store-reads": partial(store, mode="fence-reads-and-writes"),
    "fenced-store-reads-strict": partial(store, mode="fence-reads-and-writes-strict"),
}
