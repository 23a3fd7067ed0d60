"""What a lease service can do, tried out: every order of the operations, and every instant where that is asked for.

Nothing here is shared with the engine, nor with the verifier of its proofs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

FOREVER = 10**6
MODES = ("blind", "told", "unrefused", "full")


class Act(NamedTuple):
    """One operation. f: acquire, renew, release, open, keep, close, believe; outcome: ok, fail, info.

    attempt  which attempt to hold it belongs to; `session` 0 for none.
    """

    f: str
    outcome: str
    inv: int
    ret: int
    attempt: int = 0
    key: int = 0
    session: int = 0
    token: int = -1

    @property
    def end(self) -> int:
        return FOREVER if self.outcome == "info" else self.ret


@dataclass(frozen=True)
class Case:
    """A history: its acts, what prolongs a hold (grant, touch, session), and for how long at least."""

    acts: tuple[Act, ...]
    kind: str
    length: int
    ordered: bool = False

    @cached_property
    def asked(self) -> dict[int, int]:
        """Attempt → when its session asked for the same key again."""
        result: dict[int, int] = {}
        gets = sorted((act for act in self.acts if act.f == "acquire" and act.session), key=lambda act: act.inv)
        for n, act in enumerate(gets):
            later = [o.inv for o in gets[n + 1 :] if (o.session, o.key) == (act.session, act.key)]
            if later:
                result[act.attempt] = later[0]
        return result


class State(NamedTuple):
    """holder: (key, attempt); ends: (lease, its end); over: sessions; token: of each key the last."""

    now: int
    holder: frozenset[tuple[int, int]]
    ends: frozenset[tuple[str, int]]
    over: frozenset[int]
    tokens: frozenset[tuple[int, int]]
    had: frozenset[tuple[int, int]]


def possible(case: Case, mode: str, *, bound: int | None = None, every_instant: bool = False) -> bool:
    """Whether some order of events explains what this mode believes."""
    acts = [act for act in case.acts if _believed(act, case, mode, bound is not None)]
    start = State(0, frozenset(), frozenset(), frozenset(), frozenset(), frozenset())
    known: set[tuple[frozenset[int], State]] = set()
    limit = max((moment for act in case.acts for moment in (act.inv, act.ret)), default=0) + case.length + 1
    todo = [(frozenset(range(len(acts))), start)]
    while todo:
        left, state = todo.pop()
        needed = [acts[n] for n in left if _needed(acts[n], case, mode)]
        if not needed:
            return True
        horizon = min(act.end for act in needed)
        for n in left:
            if acts[n].inv > horizon or any(_first(acts[m], acts[n]) for m in left):
                continue
            latest = min(acts[n].end, limit)
            for after in _happens(acts[n], state, case, mode, bound, latest, every_instant):
                item = left - {n}, after
                if item not in known:
                    known.add(item)
                    todo.append(item)
    return False


def _believed(act: Act, case: Case, mode: str, beliefs: bool) -> bool:
    if act.f == "believe" or (act.f in ("open", "keep", "close") and not _holds(act.session, case, mode)):
        return False
    if act.outcome == "fail":
        return mode == "full" and act.f != "acquire" and not _vain(act, case)
    return act.outcome == "ok" or act.f in ("acquire", "release", "close")


def _holds(session: int, case: Case, mode: str) -> bool:
    """Whether it certainly held something: of others it does not matter how long they lived."""
    released = {
        a.attempt for a in case.acts if a.f == "release" and a.outcome == "ok" and mode in ("unrefused", "full")
    }
    return any(
        a.f == "acquire" and a.session == session and (a.outcome == "ok" or a.attempt in released) for a in case.acts
    )


def _vain(act: Act, case: Case) -> bool:
    """Whether the attempt was never certainly begun, so that nobody can have lost it."""
    return act.f in ("renew", "release") and not any(
        a.f == "acquire" and a.outcome == "ok" and a.attempt == act.attempt for a in case.acts
    )


def _needed(act: Act, case: Case, mode: str) -> bool:
    if act.outcome == "info":
        return False
    if act.f == "close":
        return mode in ("unrefused", "full")
    return True


def _first(one: Act, other: Act) -> bool:
    """Whether one must come first by its client's own order: acquire before all else, creation before use."""
    if one is other:
        return False
    if one.f == "acquire" and other.f in ("renew", "release"):
        return one.attempt == other.attempt and one.outcome == "ok"
    return one.f == "open" and other.session == one.session and one.outcome == "ok"


def _happens(
    act: Act, state: State, case: Case, mode: str, bound: int | None, latest: int, every: bool
) -> Iterator[State]:
    least = max(state.now, act.inv)
    for t in range(least, latest + 1):
        yield from _at(act, state._replace(now=t), case, mode, bound)
        if not every:
            # Only what has to wait (for a lease to end, for a belief) gains by coming later.
            waits = [moment for _, moment in state.ends] + list(case.asked.values())
            waits += [b.inv - bound for b in case.acts if b.f == "believe" and bound is not None]
            for later in sorted({moment for moment in waits if least < moment <= latest}):
                yield from _at(act, state._replace(now=later), case, mode, bound)
            return


def _at(act: Act, state: State, case: Case, mode: str, bound: int | None) -> Iterator[State]:
    for before in _endings(state, case):
        yield from _effect(act, before, case, mode, bound)


def _endings(state: State, case: Case) -> Iterator[State]:
    """What may have ended by now: any of what can end, so all sets of those."""
    yield state
    ends = dict(state.ends)
    for key, attempt in state.holder:
        session = _session(attempt, case)
        if case.asked.get(attempt, FOREVER) <= state.now:
            yield from _endings(_without(state, {key}), case)
        if session and ends.get(f"s{session}", 0) <= state.now:
            yield from _endings(_over(state, session, case), case)
        elif not session and ends[f"a{attempt}"] <= state.now:
            yield from _endings(_without(state, {key}), case)
    for name, end in state.ends:
        session = int(name[1:]) if name[0] == "s" else 0
        idle = session and not any(_session(attempt, case) == session for _, attempt in state.holder)
        if idle and session not in state.over and end <= state.now:
            yield from _endings(_over(state, session, case), case)


def _effect(act: Act, state: State, case: Case, mode: str, bound: int | None) -> Iterator[State]:
    t, holder = state.now, dict(state.holder)
    alive = act.session not in state.over
    mine = holder.get(act.key) == act.attempt
    certain = mode in ("unrefused", "full")
    if act.f == "acquire":
        tokens = dict(state.tokens)
        if act.key in holder or (act.session and not alive) or (case.ordered and act.token <= tokens.get(act.key, -1)):
            return
        if bound is not None and any(
            act.key == key and b.f == "believe" and b.attempt == attempt and b.inv - bound > t
            for key, attempt in state.had
            for b in case.acts
        ):
            return
        state = state._replace(
            holder=state.holder | {(act.key, act.attempt)},
            tokens=frozenset({**tokens, act.key: act.token}.items()),
            had=state.had | {(act.key, act.attempt)},
        )
        if not act.session or case.kind == "touch":
            yield _prolong(state, act, t + case.length)
        else:
            yield _prolong(state, act, 0)
    elif act.f == "renew" and act.outcome == "ok":
        if mine and (not act.session or alive):
            yield _prolong(state, act, t + case.length)
        elif mode == "blind":
            yield state
    elif act.outcome == "fail" and act.f in ("renew", "release"):
        if not mine:
            yield state
    elif act.f == "release":
        if act.outcome == "info" and not mine:
            return
        prolongs = act.session and case.kind == "touch" and mode != "blind"
        if (prolongs and not alive) or (certain and act.outcome == "ok" and not mine):
            return
        freed = _without(state, {act.key}) if mine else state
        yield (
            _prolong(freed, act, t + case.length)
            if prolongs or (act.session and case.kind == "touch" and act.outcome == "info")
            else freed
        )
    elif act.f == "open":
        yield _prolong(state, act, t + case.length)
    elif act.f == "keep" and act.outcome == "ok":
        if alive:
            yield _prolong(state, act, t + case.length)
        elif mode == "blind":
            yield state
    elif act.f == "keep":
        if not alive:
            yield state
    elif act.f == "close":
        yield _over(state, act.session, case)


def _session(attempt: int, case: Case) -> int:
    return next(act.session for act in case.acts if act.f == "acquire" and act.attempt == attempt)


def _without(state: State, keys: set[int]) -> State:
    return state._replace(holder=frozenset(item for item in state.holder if item[0] not in keys))


def _over(state: State, session: int, case: Case) -> State:
    keys = {key for key, attempt in state.holder if _session(attempt, case) == session}
    return _without(state, keys)._replace(over=state.over | {session})


def _prolong(state: State, act: Act, until: int) -> State:
    name = f"s{act.session}" if act.session else f"a{act.attempt}"
    ends = dict(state.ends)
    return state._replace(ends=frozenset({**ends, name: max(ends.get(name, 0), until)}.items()))


def without(case: Case, acts: Sequence[Act]) -> Case:
    """The same without some of its acts."""
    return replace(case, acts=tuple(act for act in case.acts if act not in acts))
