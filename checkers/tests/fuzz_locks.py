"""The lock engines against exhaustive search on tiny histories, and their orders against the specification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Final

from checkers.engines import locks
from checkers.engines.engine import Engine
from checkers.history import History
from checkers.leases import INFINITY
from checkers.models.locks import Mutex, ReentrantMutex, RWLock, Semaphore
from checkers.models.model import Illegal, Model, Operation, Settings
from checkers.tests import brute
from checkers.tests.brute import FOREVER
from checkers.tests.build import Book
from checkers.tests.compare import Disagreement
from checkers.wire import SHARED, F, Outcome, Reason

OUTCOMES = {"ok": Outcome.OK, "fail": Outcome.FAIL, "info": Outcome.INFO}


@dataclass(frozen=True)
class Op:
    """what: acquire, try, release. outcome: ok, fail (refused because held), info."""

    what: str
    outcome: str
    owner: int
    inv: int
    ret: int
    shared: bool = False
    reason: Reason = Reason.HELD

    @property
    def end(self) -> int:
        return FOREVER if self.outcome == "info" else self.ret


State = tuple[tuple[int, bool], ...]
"""Who holds, and whether as a reader, once for each time."""


def admits(name: str, permits: int, state: State, op: Op) -> bool:
    """Whether an acquire can succeed, in words of its own."""
    if name == "mutex":
        return not state
    if name == "reentrant-mutex":
        return all(owner == op.owner for owner, _ in state)
    if name == "semaphore":
        return len(state) < permits
    return all(owner != op.owner for owner, _ in state) and (
        not state or (op.shared and all(reader for _, reader in state))
    )


def step(name: str, permits: int) -> Callable[[State, Op], Iterator[State]]:
    """The specification as `brute.linearizable` asks for it."""

    def steps(state: State, op: Op) -> Iterator[State]:
        if op.what == "release":
            for n, (owner, _) in enumerate(state):
                if owner == op.owner:
                    yield (*state[:n], *state[n + 1 :])
                    return
        elif op.outcome == "fail":
            if not admits(name, permits, state, op):
                yield state
        elif admits(name, permits, state, op):
            yield tuple(sorted((*state, (op.owner, op.shared and name == "rwlock"))))

    return steps


def story(rng: Random, name: str, permits: int) -> list[Op]:
    """A run of a lock that is right, mostly; then intervals around its moments, answers that got lost, and noise."""
    state: State = ()
    ops: list[Op] = []
    clock = 2
    owners = rng.randint(1, 4)
    grants, width = rng.random() < 0.4, rng.choice((0, 1, 2, 4))
    sloppy, faulty, lossy = rng.choice((0.0, 0.0, 0.3)), rng.choice((0.0, 0.0, 0.1, 0.3)), rng.choice((0.0, 0.15, 0.4))
    reused = rng.choice((0.0, 0.0, 0.0, 0.5))
    busy: dict[int, int] = {}
    names = list(range(1, owners + 1))
    for _ in range(rng.randint(1, 8)):
        clock += rng.choice((0, 1, 1, 1, 2))
        place = rng.randrange(len(names))
        owner = names[place]
        mine = any(who == owner for who, _ in state)
        shared = name == "rwlock" and rng.random() < 0.6
        release = rng.random() < (0.75 if mine else 0.05)
        op = Op("release" if release else rng.choice(("acquire", "try")), "ok", owner, clock, clock, shared)
        before = state
        after = next(step(name, permits)(state, op), None)
        if after is None:
            if not release and rng.random() < 0.6:
                op = replace(op, what="try", outcome="fail", reason=rng.choice((Reason.HELD,) * 4 + (Reason.NONE,)))
            elif rng.random() >= faulty:
                continue
        else:
            state = after
        if op.what == "try" and op.outcome == "ok" and rng.random() < faulty:
            op = replace(op, outcome="fail")
        inv, ret = max(1, clock - rng.randint(0, width)), clock + rng.randint(0, width)
        if rng.random() >= sloppy:
            inv = max(inv, busy.get(owner, 0) + rng.choice((1, 1, 1, 0)))
            ret = max(ret, inv)
        op = replace(op, inv=inv, ret=ret)
        if op.outcome == "ok" and rng.random() < lossy:
            op = replace(op, outcome="info")
            if after is not None and rng.random() < 0.4:
                state = before
            if rng.random() >= reused:
                names[place] = max(names) + 1
        elif grants and release:
            names[place] = max(names) + 1
        busy[owner] = max(busy.get(owner, 0), ret)
        ops.append(op)
    if rng.random() < 0.3:
        ops = [_nudged(op, rng) for op in ops]
    if rng.random() < 0.1:
        ops = [replace(op, owner=rng.choice(names)) if rng.random() < 0.3 else op for op in ops]
    rng.shuffle(ops)
    return ops


def _nudged(op: Op, rng: Random) -> Op:
    inv = max(1, op.inv + rng.randint(-2, 2))
    return replace(op, inv=inv, ret=max(inv, op.ret + rng.randint(-2, 2)))


def book(ops: list[Op], key: int = 0, into: Book | None = None) -> Book:
    """The same operations as a history."""
    into = into or Book()
    for op in ops:
        into.add(
            {"acquire": F.ACQUIRE, "try": F.TRY_ACQUIRE, "release": F.RELEASE}[op.what],
            op.inv,
            op.ret,
            OUTCOMES[op.outcome],
            owner=op.owner,
            process=op.owner,
            key=key,
            reason=op.reason if op.outcome == "fail" else Reason.NONE,
            flags=SHARED if op.shared and op.what != "release" else 0,
        )
    return into


def truth(name: str, ops: list[Op], settings: Settings) -> bool:
    """By exhaustive search."""
    kept = [
        op
        for op in ops
        if op.outcome != "fail" or (settings.strict_try and op.what == "try" and op.reason == Reason.HELD)
    ]
    return brute.linearizable(kept, (), step(name, settings.permits))  # type: ignore[arg-type]


def replayed(history: History, rows: list[int], model: Model, keys: set[int]) -> None:
    """That an order is one: all that must be in it, real time, and the specification. Raises Disagreement."""
    c = {name: column.tolist() for name, column in history.columns.items()}
    expected = Counter(
        row
        for row in range(len(history))
        if c["key"][row] in keys
        and (
            c["outcome"][row] == Outcome.OK
            or (c["outcome"][row] == Outcome.FAIL and model.evidence(_operation(c, row)))
        )
    )
    given = Counter(row for row in rows if c["outcome"][row] != Outcome.INFO)
    if given != expected or len(set(rows)) != len(rows):
        raise Disagreement(f"in the order {rows} are {given}, not {expected}")
    states: dict[int, Any] = {}
    latest: dict[int, int] = {}
    for row in rows:
        operation = _operation(c, row)
        key = c["key"][row]
        if operation.ret < latest.get(key, 0):
            raise Disagreement(f"row {row} of the order {rows} had returned before")
        latest[key] = max(latest.get(key, 0), operation.inv)
        state = model.step(states.get(key, model.initial), operation)
        if isinstance(state, Illegal):
            raise Disagreement(f"row {row} of the order {rows} is not possible there")
        states[key] = state


def _operation(c: Mapping[str, list[int]], row: int) -> Operation:
    outcome = Outcome(c["outcome"][row])
    return Operation(
        row=row,
        f=F(c["f"][row]),
        outcome=outcome,
        inv=c["inv"][row],
        ret=INFINITY if outcome == Outcome.INFO else c["ret"][row],
        process=c["process"][row],
        key=c["key"][row],
        owner=c["owner"][row],
        token=-1,
        value=None,
        base=None,
        flags=c["flags"][row],
        reason=Reason(c["reason"][row]),
    )


MODELS: Final[Mapping[str, tuple[Engine, Callable[[Settings], Model]]]] = {
    "mutex": (locks.mutex, Mutex),
    "reentrant-mutex": (locks.reentrant_mutex, ReentrantMutex),
    "rwlock": (locks.rwlock, RWLock),
    "semaphore": (locks.semaphore, Semaphore),
}


def judged(rng: Random, *, name: str, strict: bool) -> str:
    """One history through an engine."""
    permits = rng.choice((1, 2, 2, 3)) if name == "semaphore" else 1
    settings = Settings(permits=permits, strict_try=strict)
    ops = story(rng, name, permits)
    history = book(ops).history()
    engine, model = MODELS[name]
    answer = engine(history, settings)
    valid = truth(name, ops, settings)
    shown = "\n".join(str(op) for op in sorted(ops, key=lambda op: op.inv))
    if answer.conflicts:
        if valid:
            raise Disagreement(f"a false alarm, {answer.conflicts}, {settings}:\n{shown}")
        (conflict,) = answer.conflicts
        if answer.undecided or not conflict.rows:
            raise Disagreement(f"decided and not decided: {answer}")
        return f"invalid, {conflict.kind}"
    if answer.undecided:
        replayed(history, answer.order().tolist(), model(settings), set())
        return f"undecided, {'valid' if valid else 'invalid'}"
    if not valid:
        raise Disagreement(f"missed, {settings}:\n{shown}")
    try:
        replayed(history, answer.order().tolist(), model(settings), {0})
    except Disagreement as error:
        raise Disagreement(f"{error}, {settings}:\n{shown}") from error
    return "valid"


CHECKS: Final[Mapping[str, Callable[[Random], str]]] = {
    f"{name}{'-strict' if strict else ''}": partial(judged, name=name, strict=strict)
    for name in MODELS
    for strict in (False, True)
}
