"""The independent verifier of results on leases: it replays what a service does, and shares no code with the engine.

Valid: rows in an order in which they can have happened, each as early as it can. Invalid: rows that no order explains.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from checkers.history.history import History
from checkers.models.model import Settings
from checkers.proofs.lease_events import LeaseEvents
from checkers.row_format import ACQUIRES, F

STEPS: Final = 20_000  # states a second of the budget; then the verifier gives up showing that no order explains rows
EXPLAINED: Final = "some order explains these rows"


class _State(NamedTuple):
    """now: ns. ends: of leases, at the earliest (by attempt, or minus session). over: ended sessions. placed: rows."""

    now: int
    holder: dict[int, int]
    ends: dict[int, int]
    token: dict[int, int]
    over: set[int]
    placed: set[int]

    def copy(self) -> "_State":
        return _State(self.now, dict(self.holder), dict(self.ends), dict(self.token), set(self.over), set(self.placed))

    def identity(self) -> object:
        return self.now, *(frozenset(part.items() if isinstance(part, dict) else part) for part in self[1:])


def _ways(e: LeaseEvents, state: _State, row: int) -> list[tuple[int, int, str]]:
    """(row, when it can come next, how the hold in its way ends) for each way; none if it cannot come next."""
    f, key, mine, z = e.f[row], e.key[row], e.attempt[row], e.session[row]
    t, held = max(state.now, e.start(row)), state.holder.get(key)
    ways = [(t, "")]
    if f == F.KEEP_ALIVE and e.refused(row):
        ways = ways if z in state.over else [(max(t, state.ends.get(-z, 0)), "expires")]
    elif e.refused(row):
        ways = [] if mine not in state.placed else _endings(e, state, held, t, 0) if held == mine else ways
    elif f in ACQUIRES and held is not None:
        ways = _endings(e, state, held, t, z)
    elif f in (F.RENEW, F.RELEASE) and held != mine:
        ways = []
    dead = f != F.SESSION_CLOSE and z in state.over and not e.refused(row)
    if dead or (f in ACQUIRES and key in e.ordered and e.columns["token"][row] <= state.token.get(key, -1)):
        return []
    return [(row, at, how) for at, how in ways if at <= e.end(row)]


def _endings(e: LeaseEvents, state: _State, held: int, t: int, spare: int) -> list[tuple[int, str]]:
    """How a hold can end: it is given up, or expires with all its session (only if that is not `spare`)."""
    z, given_up = e.session[held], [(max(t, e.given_up[held]), "is given up")] if held in e.given_up else []
    return given_up + ([] if z and z == spare else [(max(t, state.ends[-z or held]), "expires")])


def _happen(e: LeaseEvents, state: _State, row: int, t: int, how: str) -> _State:
    f, key, z = e.f[row], e.key[row], e.session[row]
    ended = z if f in (F.KEEP_ALIVE, F.SESSION_CLOSE) else e.session[state.holder[key]] if how == "expires" else 0
    state.placed.add(row)
    if how or f == F.SESSION_CLOSE:
        state.over.update({ended} - {0})
        for other, held in list(state.holder.items()) if ended else [(key, 0)]:
            if not ended or e.session[held] == ended:
                del state.holder[other]
    if f != F.SESSION_CLOSE and not e.refused(row):
        if f in ACQUIRES:
            state.holder[key], state.token[key] = row, e.columns["token"][row]
        elif f == F.RELEASE:
            del state.holder[key]
        prolongs = (e.kind == "touch" or f not in (*ACQUIRES, F.RELEASE)) if z else f != F.RELEASE
        lease, until = -z or e.attempt[row], t + e.length[row] if prolongs else 0
        state.ends[lease] = max(state.ends.get(lease, 0), until)
    return state._replace(now=t)


def certify(history: History, settings: Settings, valid: bool, rows: Sequence[int]) -> str | None:  # noqa: FBT001
    """None if the rows prove the result, else what is wrong with them."""
    e = LeaseEvents(history, settings)
    needed = {row for row in range(len(history)) if e.must_happen(row)}
    if valid and (len(set(rows)) != len(rows) or needed - set(rows)):
        return "an operation is missing, or stands there twice"
    known, todo = set[object](), [_State(0, {}, {}, {}, set(), set())]
    while todo and len(known) <= STEPS * settings.budget:
        state = todo.pop()
        left = rows[len(state.placed) :][:1] if valid else [row for row in rows if row not in state.placed]
        horizon = min((e.end(row) for row in left if valid or row in needed), default=-1)
        if horizon < 0:
            return None if valid else EXPLAINED
        moves = [way for row in left if valid or e.start(row) <= horizon for way in _ways(e, state, row)]
        for n, move in enumerate(moves):
            after = _happen(e, state if n + 1 == len(moves) else state.copy(), *move)
            if valid or (identity := after.identity()) not in known:
                known.update(() if valid else (identity,))
                todo.append(after)
    return "no service can have done this in this order" if valid else "too many orders to try" if todo else None
