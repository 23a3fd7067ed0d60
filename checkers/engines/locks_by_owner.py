"""The holds of each owner, from an acquire to the release that ended it, put together from the owner's operations.

Source: checkers/CONDITIONS.md, section 15, which says how unknown operations are used and what is not decided here (the
key is `odd`). One walk over the rows in order of invocation with a few numbers for each pair of key and owner, O(n).
Holds come out in the order in which their releases were invoked.
"""

from typing import Final, NamedTuple

import numpy as np

from checkers.engines.codes import ACQUIRE, FAIL, INFO, RELEASE, TRY_ACQUIRE
from checkers.engines.kernel import Column, kernel
from checkers.history.history import History
from checkers.row_format import INFINITY, SHARED, Outcome


class Calls(NamedTuple):
    """Columns of a history, in order of invocation."""

    f: Column
    outcome: Column
    inv: Column  # ns
    ret: Column  # ns
    key: Column
    flags: Column


def calls_of(history: History) -> Calls:
    return Calls(*[history.columns[name] for name in Calls._fields])


class Slots(NamedTuple):
    """Numbers for the pairs (key, owner) of a history, so that what is known of each can stand in an array."""

    of: Column  # slot of each row, int32
    total: int  # how many there may be; not all need have rows


def slots(history: History) -> Slots:
    """One slot for each pair: a computed one if owners are few numbers, as processes are; the owner's own if each owner
    acts on one key only, as grants do; else by sorting, O(n log n).
    """
    key, owner = history.columns["key"], history.columns["owner"]
    rows = len(key)
    if not rows:
        return Slots(np.empty(0, np.int32), 0)
    keys, low = int(key.max()) + 1, int(owner.min())
    span = int(owner.max()) - low + 1
    if keys * span <= max(rows, 64):
        return Slots((key * np.int64(span) + (owner - low)).astype(np.int32), keys * span)
    if span <= 2 * rows:
        of = (owner - low).astype(np.int32)
        home = np.empty(span, key.dtype)  # of each owner its last key
        home[of] = key
        if (home[of] == key).all():
            return Slots(of, span)
    _, owner = np.unique(owner, return_inverse=True)
    pairs, slot = np.unique(owner.astype(np.int64) * keys + key, return_inverse=True)
    return Slots(slot.astype(np.int32), len(pairs))


TURNS, DEPTH, COUNT, EITHER = range(4)
"""How an owner holds. TURNS: once or not at all. DEPTH: it may acquire again what it holds, and must release it as
often. COUNT: several at once, each on its own. EITHER: as TURNS, as a reader or as a writer."""

# What is known of a slot, in one stretch of memory that is as small as possible, since there may be as many slots as
# holds. Rows and holds are kept as number + 1, 0 for none.
_SIZE: Final = 8
_OPEN, _HELD, _GUESS, _GUESSES, _GHOST, _GRANTED, _RETURNED, _STATUS = range(_SIZE)
"""OPEN: the acquire in force, or the first of several. HELD: acknowledged acquires less acknowledged releases. GUESSES:
how many holds unanswered releases ended, unless later rows contradict; GUESS: the latest of them. GHOST: the first
unanswered acquire not needed so far. GRANTED: the acquire that returned latest. RETURNED: the operation that did."""

_MORE, _SPARE, _UNSURE, _FAILED, _ODD = 1, 2, 4, 8, 16
"""A status is a sum of the first three, or one of the others. MORE: there are more unanswered acquires. SPARE: there is
an unanswered release that nothing needed. UNSURE: something was unanswered; from then on ties and overlaps make a
second story possible. FAILED: certainly invalid, unless a row follows that was invoked before RETURNED returned."""


class OwnerHolds(NamedTuple):
    """Holds of all keys; rows as row numbers, -1 for none."""

    acquire: Column  # of each hold
    release: Column  # of each hold; holds stand in the order of their releases, those never released last
    failed: Column  # the rows at which an owner acquired what it held already, or released what it did not hold
    failed_with: Column  # of each of these rows the acquire by which the owner held
    odd: Column  # of each key whether it is not decided
    ghosts: Column  # unanswered acquires that nothing needs; one for each owner that has some, in order of keys
    loose: Column  # of each key whether some owner may have held for a while at any time: the owner has an unanswered
    # acquire and an unanswered release that nothing needs


def holds(history: History, slots: Slots, how: int, keys: int) -> OwnerHolds:
    """The holds of all owners. how: TURNS, DEPTH, COUNT or EITHER."""
    result, state, in_order = _pair(calls_of(history), slots, how, keys)
    if result.odd.any():  # holds of an owner that turned out odd later may be wrong
        fine = state[slots.of[result.acquire] * _SIZE + _STATUS] != _ODD
        result = result._replace(acquire=result.acquire[fine], release=result.release[fine])
    if len(result.failed):
        lasting = state[slots.of[result.failed] * _SIZE + _STATUS] == _FAILED
        result = result._replace(failed=result.failed[lasting], failed_with=result.failed_with[lasting])
    if not in_order:
        order = np.argsort(np.where(result.release < 0, len(history), result.release), kind="stable")
        result = result._replace(acquire=result.acquire[order], release=result.release[order])
    return result


class _Walk(NamedTuple):
    """What the walk over the rows fills in."""

    state: Column  # of each slot, see above
    acquire: Column  # of each hold
    release: Column  # of each hold
    after: Column  # of an acquire in force: the next one, as row + 1
    newest: Column  # of the first acquire in force: the last one
    under: Column  # of a guess: the guess before it


@kernel
def _pair(calls: Calls, slots: Slots, how: int, keys: int) -> tuple[OwnerHolds, Column, bool]:
    """(holds, what is known of each slot in the end, whether holds are in order). The holds still include those of odd
    owners, and the failures those of owners that a later row made odd.
    """
    f, outcome, inv, ret, key, flags = calls
    slot, rows = slots.of, len(calls.f)
    state = np.zeros(slots.total * _SIZE, np.int32)
    acquire, release = np.empty(rows, np.int32), np.empty(rows, np.int32)
    many = rows if how == COUNT else 0
    after, newest, under = np.zeros(many, np.int32), np.empty(many, np.int32), np.empty(many, np.int32)
    walk = _Walk(state, acquire, release, after, newest, under)
    failed, failed_with = np.empty(slots.total, np.int32), np.empty(slots.total, np.int32)
    odd = np.zeros(keys, np.bool_)
    count, failures = 0, 0
    in_order = True
    turns = how in (TURNS, EITHER)
    for i in range(rows):
        kind = f[i]
        if (kind != RELEASE and kind != ACQUIRE and kind != TRY_ACQUIRE) or outcome[i] == FAIL:
            continue
        s = int(slot[i]) * _SIZE
        t = inv[i]
        status = state[s + _STATUS]
        unknown = outcome[i] == INFO
        if status >= _FAILED:
            if status == _FAILED and t <= _return(state[s + _RETURNED], ret):
                state[s + _STATUS] = _ODD
                odd[key[i]] = True
            continue
        if unknown:
            status |= _UNSURE
            state[s + _STATUS] = status
        strange = status & _UNSURE > 0 and t <= _return(state[s + _RETURNED], ret)
        held = state[s + _HELD]
        if strange:
            pass
        elif kind != RELEASE:
            if unknown:
                if state[s + _GHOST]:
                    state[s + _STATUS] = status | _MORE
                else:
                    state[s + _GHOST] = i + 1
                continue
            last = state[s + _OPEN] - 1
            if status & _SPARE:
                strange = True
            elif how == EITHER and last >= 0 and t <= ret[last] and (flags[i] ^ flags[last]) & SHARED:
                strange = True  # all at one instant: the reader's acquire may as well come after the writer's
            elif turns and held:
                if state[s + _GUESS]:  # the unanswered release ended the hold: nothing else freed the lock
                    state[s + _GUESS] = 0
                    state[s + _GUESSES] = 0
                    state[s + _OPEN] = i + 1
                else:
                    failed[failures], failed_with[failures] = i, state[s + _OPEN] - 1
                    failures += 1
                    state[s + _STATUS] = _FAILED
            elif how == DEPTH and held:
                strange = state[s + _GUESSES] > 0 or ret[i] < ret[state[s + _OPEN] - 1]
                state[s + _HELD] = held + 1
            else:
                open_ = state[s + _OPEN]
                if how == COUNT and open_:
                    after[newest[open_ - 1]] = i + 1
                    newest[open_ - 1] = i
                else:
                    state[s + _OPEN] = i + 1
                    if how == COUNT:
                        newest[i] = i
                state[s + _HELD] = held + 1
            if ret[i] > _return(state[s + _GRANTED], ret):
                state[s + _GRANTED] = i + 1
        elif unknown:
            if held == state[s + _GUESSES] or (how == DEPTH and held > 1):
                strange = how == DEPTH and held > 1 and status & _SPARE > 0
                state[s + _STATUS] = status | _SPARE
            else:
                count = _guessed(walk, i, s, how, count)
        elif not held:
            if state[s + _GHOST]:
                strange = how == EITHER and status & _MORE > 0  # the acquire may be a reader's or a writer's
                acquire[count], release[count] = state[s + _GHOST] - 1, i
                count += 1
                state[s + _GHOST] = 0
            elif status & _MORE:
                strange = True
            else:
                failed[failures], failed_with[failures] = i, -1
                failures += 1
                state[s + _STATUS] = _FAILED
        elif t < _return(state[s + _GRANTED], ret):
            strange = True
        else:
            held -= 1
            state[s + _HELD] = held
            if held < state[s + _GUESSES]:  # the unanswered release did not end that hold after all
                strange = state[s + _GHOST] > 0
                in_order = False
                _corrected(walk, i, s, how)
            elif how == DEPTH and held:
                # At one instant: the owner may as well have released everything first, and then acquired again.
                strange = status & _SPARE > 0 or t == _return(state[s + _GRANTED], ret)
            else:
                acquire[count], release[count] = state[s + _OPEN] - 1, i
                if how == DEPTH or (turns and t == _return(state[s + _GRANTED], ret)):
                    # An earlier release may be the last one instead.
                    strange = ret[i] < _return(state[s + _RETURNED], ret)
                if how == COUNT:
                    # At one instant: which of several holds it releases decides whether there is room.
                    strange = held > 0 and ret[acquire[count]] == t
                    state[s + _OPEN] = _next(acquire[count], after, newest)
                count += 1
        if not unknown and ret[i] > _return(state[s + _RETURNED], ret):
            state[s + _RETURNED] = i + 1
        if strange:
            state[s + _STATUS] = _ODD
            odd[key[i]] = True
    count, ghosts, loose = _left(walk, key, how, keys, count)
    failed, failed_with = failed[:failures], failed_with[:failures]
    return OwnerHolds(acquire[:count], release[:count], failed, failed_with, odd, ghosts, loose), state, in_order


@kernel
def _guessed(walk: _Walk, i: int, s: int, how: int, count: int) -> int:
    """Takes an unanswered release as the end of the open hold. Returns how many holds there are then."""
    state, acquire = walk.state, walk.acquire
    acquire[count], walk.release[count] = state[s + _OPEN] - 1, i
    if how == COUNT:
        walk.under[count] = state[s + _GUESS]
        state[s + _OPEN] = _next(acquire[count], walk.after, walk.newest)
    state[s + _GUESS] = count + 1
    state[s + _GUESSES] += 1
    return count + 1


@kernel
def _corrected(walk: _Walk, i: int, s: int, how: int) -> None:
    """Makes an acknowledged release the end of a hold that an unanswered release was taken to have ended."""
    state = walk.state
    last = state[s + _GUESS] - 1
    walk.release[last] = i
    state[s + _GUESS] = walk.under[last] if how == COUNT else 0
    state[s + _GUESSES] -= 1
    state[s + _STATUS] |= _SPARE


@kernel
def _left(walk: _Walk, key: Column, how: int, keys: int, count: int) -> tuple[int, Column, Column]:
    """Adds the holds that were never released. Returns (how many holds there are, ghosts, loose): see `OwnerHolds`."""
    state, acquire = walk.state, walk.acquire
    ghosts = np.empty(len(state) // _SIZE, np.int32)
    loose = np.zeros(keys, np.bool_)
    left = 0
    for s in range(0, len(state), _SIZE):
        status = state[s + _STATUS]
        if status == _ODD:
            continue
        ghost = state[s + _GHOST]
        if ghost:
            ghosts[left] = ghost - 1
            left += 1
            if state[s + _GUESSES] or status & _SPARE:
                loose[key[ghost - 1]] = True
        open_ = state[s + _OPEN]
        remaining = state[s + _HELD] - state[s + _GUESSES]
        if how != COUNT and remaining > 1:
            remaining = 1
        for _ in range(remaining):
            acquire[count], walk.release[count] = open_ - 1, -1
            count += 1
            if how == COUNT:
                open_ = walk.after[open_ - 1]
    return count, ghosts[:left], loose


@kernel
def _return(number: int, ret: Column) -> int:
    """ns; when the row of this number returned, 0 for no row."""
    return int(ret[number - 1]) if number else 0


@kernel
def _next(first: int, after: Column, newest: Column) -> int:
    """Row + 1 of the acquire that is the first in force after `first` has ended; 0 for none."""
    following = after[first]
    if following:
        newest[following - 1] = newest[first]
    return int(following)


def spans(history: History, held: OwnerHolds) -> tuple[Column, Column]:
    """Core of each hold, ns: from the acquire's return to the release's invocation; `INFINITY` where that never came.

    The core of a momentary hold ends before it begins, or when it begins.
    """
    c = history.columns
    begin = np.where(c["outcome"][held.acquire] == Outcome.INFO, INFINITY, c["ret"][held.acquire])
    end = np.where(held.release < 0, INFINITY, c["inv"][held.release])
    return begin, end
