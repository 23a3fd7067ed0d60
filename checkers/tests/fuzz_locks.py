"""Compares the lock engines with exhaustive search on tiny histories, and their orders with the specification."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

from checkers.models.model import Settings
from checkers.row_format import NONE, SHARED, F, Reason
from checkers.tests import acts
from checkers.tests.batches import Batched, ended, names, sorted_history
from checkers.tests.brute import linearizable
from checkers.tests.build import FACTS
from checkers.tests.generate import nudged

KINDS: Final = {"acquire": int(F.ACQUIRE), "try": int(F.TRY_ACQUIRE), "release": int(F.RELEASE)}
WIDTH: Final = 16  # more owners than a history has


class Op(NamedTuple):
    """what: acquire, try, release. outcome: ok, fail (refused because held), info."""

    what: str
    outcome: str
    owner: int
    inv: int
    ret: int
    shared: bool = False
    reason: Reason = Reason.HELD


State = tuple[tuple[int, bool], ...]  # owners, and whether they hold as readers; once for each hold


def admits(name: str, permits: int, state: State, op: Op) -> bool:
    """Whether an acquire can succeed. Does not use the models of the checkers."""
    if name == "mutex":
        return not state
    if name == "reentrant-mutex":
        return all(owner == op.owner for owner, _ in state)
    if name == "semaphore":
        return len(state) < permits
    return all(by != op.owner for by, _ in state) and (not state or (op.shared and all(reader for _, reader in state)))


def step(name: str, permits: int) -> Callable[[State, Op], tuple[State, ...]]:
    """The specification in the form that `brute.explained` takes."""

    def steps(state: State, op: Op) -> tuple[State, ...]:
        if op.what == "release":
            for n, (owner, _) in enumerate(state):
                if owner == op.owner:
                    return ((*state[:n], *state[n + 1 :]),)
            return ()
        admitted = admits(name, permits, state, op)
        if op.outcome == "fail":
            return () if admitted else (state,)
        return (tuple(sorted((*state, (op.owner, op.shared and name == "rwlock")))),) if admitted else ()

    return steps


def story(rng: Random, name: str, permits: int) -> list[Op]:
    """A run of a mostly correct lock; then intervals around its moments, lost answers, and noise."""
    state: State = ()
    ops: list[Op] = []
    clock = 2
    owners = rng.randint(1, 4)
    grants, width = rng.random() < 0.4, rng.choice((0, 1, 2, 4))
    sloppy, faulty, lossy = rng.choice((0.0, 0.0, 0.3)), rng.choice((0.0, 0.0, 0.1, 0.3)), rng.choice((0.0, 0.15, 0.4))
    reused = rng.choice((0.0, 0.0, 0.0, 0.5))
    busy: dict[int, int] = {}
    names = list(range(1, owners + 1))
    follow = step(name, permits)
    for _ in range(rng.randint(1, 8)):
        clock += rng.choice((0, 1, 1, 1, 2))
        place = rng.randrange(len(names))
        owner = names[place]
        mine = any(who == owner for who, _ in state)
        shared = name == "rwlock" and rng.random() < 0.6
        release = rng.random() < (0.75 if mine else 0.05)
        what, outcome, reason = "release" if release else rng.choice(("acquire", "try")), "ok", Reason.HELD
        before = state
        after = next(iter(follow(state, Op(what, outcome, owner, clock, clock, shared))), None)
        if after is None:
            if not release and rng.random() < 0.6:
                what, outcome, reason = "try", "fail", rng.choice((Reason.HELD,) * 4 + (Reason.NONE,))
            elif rng.random() >= faulty:
                continue
        else:
            state = after
        if what == "try" and outcome == "ok" and rng.random() < faulty:
            outcome = "fail"
        inv, ret = max(1, clock - rng.randint(0, width)), clock + rng.randint(0, width)
        if rng.random() >= sloppy:
            inv = max(inv, busy.get(owner, 0) + rng.choice((1, 1, 1, 0)))
            ret = max(ret, inv)
        if outcome == "ok" and rng.random() < lossy:
            outcome = "info"
            if after is not None and rng.random() < 0.4:
                state = before
            if rng.random() >= reused:
                names[place] = max(names) + 1
        elif grants and release:
            names[place] = max(names) + 1
        busy[owner] = max(busy.get(owner, 0), ret)
        ops.append(Op(what, outcome, owner, inv, ret, shared, reason))
    if rng.random() < 0.3:
        ops = [nudged(op, rng) for op in ops]
    if rng.random() < 0.1:
        ops = [op._replace(owner=rng.choice(names)) if rng.random() < 0.3 else op for op in ops]
    rng.shuffle(ops)
    return ops


def row_of(op: Op, key: int, owner: int) -> tuple[Any, ...]:
    """The row of an operation in the form of `history.DTYPE`."""
    ret = 0 if op.outcome == "info" else op.ret
    flags = SHARED if op.shared and op.what != "release" else 0
    who = owner, NONE, NONE, 0, owner
    return op.inv, ret, 0, 0, NONE, *who, 0, key, KINDS[op.what], *ended(op.outcome, op.reason), flags


def truth(name: str, ops: list[Op], settings: Settings) -> bool:
    tells = "try" if settings.strict_try else None  # the operation whose refusal proves something
    kept = [op for op in ops if op.outcome != "fail" or (op.what == tells and op.reason == Reason.HELD)]
    return linearizable(kept, (), step(name, settings.permits))


class Story(NamedTuple):
    settings: Settings
    ops: list[Op]


def drawn(rng: Random, *, name: str, strict: bool) -> Story:
    permits = rng.choice((1, 2, 2, 3)) if name == "semaphore" else 1
    return Story(Settings(permits=permits, strict_try=strict), story(rng, name, permits))


def judged(stories: Sequence[Story], *, name: str) -> list[str]:
    """Judges each story as a key of one history by an engine. All stories have the same owners, or each has its own."""
    settings = stories[0].settings
    apart = WIDTH * (sum(len(story.ops) for story in stories) % 2)
    rows = [row_of(op, key, op.owner + apart * key) for key, story in enumerate(stories) for op in story.ops]
    history, _ = sorted_history(replace(FACTS, keys=names(max(2, len(stories)))), rows)
    return acts.judged(history, [(story.ops, truth(name, story.ops, settings)) for story in stories], name, settings)


CHECKS: Final[Mapping[str, Callable[[Random], str]]] = {
    f"{name}{'-strict' if strict else ''}": Batched(
        partial(drawn, name=name, strict=strict), lambda story: story.settings, partial(judged, name=name)
    )
    for name in ("mutex", "reentrant-mutex", "rwlock", "semaphore")
    for strict in (False, True)
}
