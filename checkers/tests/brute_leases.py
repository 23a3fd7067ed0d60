"""Tries all that a lease service can do, in every order and at every instant, without code of engine or verifier."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

FOREVER = 10**6
MODES = ("blind", "told", "unrefused", "full")


class Act(NamedTuple):
    """f: acquire, renew, release, open, keep, close, believe; outcome: ok, fail, info; attempt; session, or 0."""

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
            if later := [o.inv for o in gets[n + 1 :] if (o.session, o.key) == (act.session, act.key)]:
                result[act.attempt] = later[0]
        return result


class State(NamedTuple):
    now: int
    holder: frozenset[tuple[int, int]]  # key, attempt
    ends: frozenset[tuple[int, int]]  # ends of leases: of an attempt, or of a session (negative)
    over: frozenset[int]  # sessions that are over
    tokens: frozenset[tuple[int, int]]  # the last token of each key, if the case asks about tokens


class _Asked(NamedTuple):
    """What stays the same while orders of a case are tried. sessions: by attempt; shared: whether there are any."""

    case: Case
    mode: str
    sessions: dict[int, int]
    asked: dict[int, int]
    every_instant: bool
    shared: bool


class _Move(NamedTuple):
    """An act, as a bit in the set of acts left. after: acts that must come before it; latest: its latest instant."""

    bit: int
    after: int
    act: Act
    latest: int


def possible(case: Case, mode: str, *, every_instant: bool = False) -> bool:
    """Whether some order of events explains the acts that this mode believes."""
    sessions = {act.attempt: act.session for act in reversed(case.acts) if act.f == "acquire"}
    asked = _Asked(case, mode, sessions, case.asked, every_instant, any(act.session for act in case.acts))
    moves, needed = _moves(case, mode)
    known: set[tuple[int, State]] = set()
    todo = [((1 << len(moves)) - 1, State(0, frozenset(), frozenset(), frozenset(), frozenset()))]
    while todo:
        left, state = todo.pop()
        if not left & needed:
            return True
        found = []
        for bit, after, act, latest in moves:
            if left & bit and not left & after:
                for following in _happens(act, state, asked, latest):
                    item = left ^ bit, following
                    if item not in known:
                        known.add(item)
                        found.append(item)
        todo += reversed(found)  # the likely ones first
    return False


def _moves(case: Case, mode: str) -> tuple[list[_Move], int]:
    """The acts that this mode believes, and the set of those that must have happened."""
    acts = [act for act in case.acts if _believed(act, case, mode)]
    needs = [_needed(act, mode) for act in acts]
    limit = max((moment for act in case.acts for moment in (act.inv, act.ret)), default=0) + case.length + 1
    moves = []
    for n, act in enumerate(acts):
        after = sum(1 << m for m, other in enumerate(acts) if (needs[m] and other.end < act.inv) or _first(other, act))
        moves.append(_Move(1 << n, after, act, min(act.end, limit)))
    return moves, sum(1 << n for n, need in enumerate(needs) if need)


def _believed(act: Act, case: Case, mode: str) -> bool:
    if act.f == "believe" or (act.f in ("open", "keep", "close") and not _holds(act.session, case, mode)):
        return False
    if act.outcome == "fail":
        return mode == "full" and act.f != "acquire" and not _vain(act, case) and not _early(act, case)
    return act.outcome == "ok" or act.f in ("acquire", "release", "close")


def _holds(who: int, case: Case, mode: str) -> bool:
    """Whether the session certainly held something. How long other sessions lived does not matter."""
    freed = {a.attempt for a in case.acts if a.f == "release" and a.outcome == "ok" and mode in ("unrefused", "full")}
    return any(a.f == "acquire" and a.session == who and (a.outcome == "ok" or a.attempt in freed) for a in case.acts)


def _vain(act: Act, case: Case) -> bool:
    """Whether no acquire of the attempt was acknowledged, so that nobody can have lost its hold."""
    return act.f in ("renew", "release") and not any(
        a.f == "acquire" and a.outcome == "ok" and a.attempt == act.attempt for a in case.acts
    )


def _early(act: Act, case: Case) -> bool:
    """Whether a keep-alive came before its session's creation was answered, when there may have been no session."""
    return act.f == "keep" and any(
        a.f == "open" and a.outcome == "ok" and a.session == act.session and act.inv < a.ret for a in case.acts
    )


def _needed(act: Act, mode: str) -> bool:
    return act.outcome != "info" and (act.f != "close" or mode in ("unrefused", "full"))


def _first(one: Act, other: Act) -> bool:
    """Whether `one` must come first by its client's order: an acquire before all else, a creation before use."""
    if one is other:
        return False
    if one.f == "acquire" and other.f in ("renew", "release"):
        return one.attempt == other.attempt and one.outcome == "ok"
    return one.f == "open" and other.session == one.session and one.outcome == "ok"


def _happens(act: Act, state: State, asked: _Asked, latest: int) -> list[State]:
    least = max(state.now, act.inv)
    if least > latest:
        return []
    if asked.every_instant:
        later = list(range(least + 1, latest + 1))
    else:  # An act gains by coming later only if it has to wait for a lease to end, or for a hold to be given up.
        ends = {*(moment for _, moment in state.ends), *asked.asked.values()}
        later = sorted(moment for moment in ends if least < moment <= latest)
    return [after for t in (least, *later) for after in _at(act, state, asked, t)]


def _at(act: Act, state: State, asked: _Asked, t: int) -> list[State]:
    if t != state.now:
        state = State(t, *state[1:])
    found = [_effect(act, before, asked) for before in _endings(state, asked)]
    return [after for after in found if after is not None]


def _endings(state: State, asked: _Asked) -> list[State]:
    """The states in which any set of the holds and sessions that can end by now has ended."""
    now, holder, ends, over = state[:4]
    result = [state]
    lasting = {lease for lease, end in ends if end > now}
    for item in holder:
        attempt = item[1]
        session = asked.sessions[attempt]
        if asked.asked and asked.asked.get(attempt, FOREVER) <= now:
            result += _endings(_without(state, item), asked)
        if session and -session not in lasting:
            result += _endings(_over(state, session, asked), asked)
        elif not session and attempt not in lasting:
            result += _endings(_without(state, item), asked)
    if asked.shared:
        held = {asked.sessions[attempt] for _, attempt in holder}
        for lease, end in ends:
            if lease < 0 and end <= now and -lease not in over and -lease not in held:
                result += _endings(_over(state, -lease, asked), asked)
    return result


def _effect(act: Act, state: State, asked: _Asked) -> State | None:
    """The state after the act, or None if the act cannot have happened here."""
    case, mode = asked.case, asked.mode
    f, t, refused = act.f, state.now, act.outcome == "fail"
    alive = act.session not in state.over
    mine = (act.key, act.attempt) in state.holder
    until = t + case.length
    if f == "acquire":
        return _acquired(act, state, asked) if alive or not act.session else None
    there = alive if f == "keep" else mine
    if refused and f in ("renew", "release", "keep"):
        return None if there else state
    if f in ("renew", "keep"):
        if there and (not act.session or alive):
            return _prolonged(state, act, until)
        return state if mode == "blind" else None
    if f == "release":
        if act.outcome == "info" and not mine:
            return None
        prolongs = act.session and case.kind == "touch" and mode != "blind"
        if (prolongs and not alive) or (mode in ("unrefused", "full") and act.outcome == "ok" and not mine):
            return None
        freed = _without(state, (act.key, act.attempt)) if mine else state
        if prolongs or (act.session and case.kind == "touch" and act.outcome == "info"):
            return _prolonged(freed, act, until)
        return freed
    if f == "open":
        return _prolonged(state, act, until)
    return _over(state, act.session, asked)


def _acquired(act: Act, state: State, asked: _Asked) -> State | None:
    now, holder, ends, over, tokens = state
    if any(held == act.key for held, _ in holder):
        return None
    if asked.case.ordered:
        last = dict(tokens)
        if act.token <= last.get(act.key, -1):
            return None
        tokens = frozenset({**last, act.key: act.token}.items())
    begun = State(now, holder | {(act.key, act.attempt)}, ends, over, tokens)
    return _prolonged(begun, act, now + asked.case.length if not act.session or asked.case.kind == "touch" else 0)


def _without(state: State, item: tuple[int, int]) -> State:
    return State(state.now, state.holder - {item}, *state[2:])


def _over(state: State, session: int, asked: _Asked) -> State:
    holder = frozenset(item for item in state.holder if asked.sessions[item[1]] != session)
    return State(state.now, holder, state.ends, state.over | {session}, state.tokens)


def _prolonged(state: State, act: Act, until: int) -> State:
    lease = -act.session or act.attempt
    ends = {**dict(state.ends), lease: max(until, dict(state.ends).get(lease, 0))}
    return State(state.now, state.holder, frozenset(ends.items()), state.over, state.tokens)
