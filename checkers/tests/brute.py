"""Exhaustive search on tiny histories: nothing clever, nothing shared with the engines or the search."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations, product
from typing import Any, NamedTuple

from checkers.history.holds_and_lease_ends import Hold
from checkers.row_format import NONE

FOREVER = 10**6
Step = Callable[[Any, Any], Iterable[Any]]  # the states that may follow a state and an operation


def linearizable(ops: Sequence[Any], initial: Hashable, step: Step) -> bool:
    """As `explained`, for operations that have `inv`, `ret` and `outcome` (ok, fail, info)."""
    unknown = [op.outcome == "info" for op in ops]
    spans = [(op.inv, FOREVER if lost else op.ret) for op, lost in zip(ops, unknown, strict=True)]
    return explained(ops, spans, unknown, initial, step)


def explained(
    ops: Sequence[Any], spans: Sequence[tuple[int, int]], unknown: Sequence[bool], initial: Hashable, step: Step
) -> bool:
    """Whether some order respects real time and `step`. Tries all orders, with each unknown operation in or out.
    spans: invocations and returns, late for unknown operations. Sets of operations are bits of a number.
    """
    by_end = sorted(range(len(ops)), key=lambda n: spans[n][1])  # the likely ones first
    ends = [spans[n][1] for n in by_end]
    moves = [(1 << place, (1 << bisect_left(ends, spans[n][0])) - 1, ops[n]) for place, n in enumerate(by_end)]
    answered = sum(1 << place for place, n in enumerate(by_end) if not unknown[n])
    dead: set[tuple[int, Any]] = set()  # what failed is not tried again

    def possible(left: int, state: Any) -> bool:
        if not left & answered:
            return True
        if (left, state) in dead:
            return False
        for bit, earlier, op in moves:
            if left & bit and not left & earlier:
                for after in step(state, op):
                    if possible(left ^ bit, after):
                        return True
        dead.add((left, state))
        return False

    return possible((1 << len(moves)) - 1, initial)


class Op(NamedTuple):
    """An access to a store. outcome: ok, fail, info."""

    write: bool
    outcome: str
    token: int
    owner: int
    value: int
    inv: int
    ret: int

    @property
    def end(self) -> int:
        return FOREVER if self.outcome == "info" else self.ret


BELOW = -9  # a token below all others that are used here


def fence(mode: str) -> Step:
    """A fenced store. State: (highest token, value). An unknown operation may have been accepted or refused."""
    reads, strict = mode.startswith("fence-reads"), mode.endswith("strict")

    def step(state: tuple[int, int], op: Op) -> tuple[tuple[int, int], ...]:
        highest, value = state
        write, outcome, token = op[:3]
        if not write and (not reads or token == NONE):
            return (state,) if outcome == "info" or (outcome == "ok" and op.value == value) else ()
        if token > highest or (token == highest and not (write and strict)):
            if outcome == "fail":
                return ()
            if write:
                return ((token, op.value),)
            return ((token, value),) if outcome == "info" or op.value == value else ()
        return () if outcome == "ok" else (state,)

    return step


def fenced(ops: Sequence[Op], mode: str) -> bool:
    return linearizable(ops, (BELOW, NONE), fence(mode))


def compare_owner(state: tuple[int, int, frozenset[int]], op: Op) -> Iterator[tuple[int, int, frozenset[int]]]:
    """State: (owner, value, grants that have accessed)."""
    owner, value, seen = state
    if op.owner not in seen:
        owner, seen = op.owner, seen | {op.owner}
    if op.write:
        accepted = owner == op.owner
        if op.outcome == "info" or accepted == (op.outcome == "ok"):
            yield owner, (op.value if accepted else value), seen
    elif op.outcome == "info" or (op.outcome == "ok" and op.value == value):
        yield owner, value, seen


@dataclass(frozen=True)
class Lease:
    """A grant: the window of its server instant, TTL, acknowledged renewals, release (inv, ret), or None."""

    start: int
    ret: int
    ttl: int
    renewals: tuple[tuple[int, int], ...] = ()
    release: tuple[int, int] | None = None
    token: int = -1
    creation: tuple[int, int] | None = None
    keep_alives: tuple[tuple[int, int], ...] = ()


def _instants(span: tuple[int, int], least: int) -> range:
    return range(max(span[0], least), span[1] + 1)


def ends(lease: Lease, kind: str = "grant") -> dict[int, int]:
    """Each instant at which the hold can have begun → its earliest end in that case."""
    found = {a: _earliest_end(lease, a, kind) for a in range(lease.start, lease.ret + 1)}
    return {a: end for a, end in found.items() if end is not None}


def _earliest_end(lease: Lease, a: int, kind: str) -> int | None:
    """The earliest end of a hold from `a` on, or None. What was acknowledged happened, renewals while it held."""
    best: int | None = None
    limit = max([lease.ret, *(ret for _, ret in lease.renewals), lease.release[0] if lease.release else 0])
    releases: list[int | None] = [None]
    certain = lease.release is not None and lease.release[1] < FOREVER
    if lease.release is not None:
        releases = list(_instants((lease.release[0], min(lease.release[1], limit)), a))
        if not certain:
            releases.append(None)
    session = () if lease.creation is None else (lease.creation,)
    spans = [*lease.renewals, *session, *lease.keep_alives]
    first_touch = len(lease.renewals)
    for moments in product(*(_instants(span, a if n < first_touch else 0) for n, span in enumerate(spans))):
        touched = [*moments]
        if kind != "session":
            touched.append(a)
        expiry = max(touched) + lease.ttl
        held = max([a, *moments[:first_touch]])
        for release in releases:
            if release is not None and release < held:
                continue
            if kind == "touch" and lease.creation is not None and release is not None and certain:
                expiry = max(expiry, release + lease.ttl)  # the session answered, so it lived, and was prolonged
            end = max(held, expiry if release is None else min(release, expiry))  # expiry may come late
            best = end if best is None else min(best, end)
    return best


def told(leases: Sequence[Lease], kind: str = "grant") -> bool:
    """Whether the holds can have followed one another, in some order (that of their tokens, if all have right ones)."""
    orders: Any = permutations(range(len(leases)))
    if all(lease.token >= 0 for lease in leases) and tokens_ordered(leases):
        orders = [sorted(range(len(leases)), key=lambda n: leases[n].token)]
    possible = [ends(lease, kind) for lease in leases]
    return any(_fits(order, possible) for order in orders)


def _fits(order: Sequence[int], possible: Sequence[dict[int, int]]) -> bool:
    """Tries all starts, one grant after another."""
    reachable = {0}
    for n in order:
        reachable = {end for before in reachable for a, end in possible[n].items() if a >= before}
        if not reachable:
            return False
    return True


def tokens_ordered(leases: Sequence[Lease]) -> bool:
    """Whether some order of the grants respects real time and has strictly increasing tokens."""
    for order in permutations(leases):
        real = all(not later.ret < earlier.start for n, earlier in enumerate(order) for later in order[n + 1 :])
        if real and all(one.token < other.token for one, other in pairwise(order)):
            return True
    return not leases


def inside_together(holds: Sequence[tuple[int, int]]) -> int:
    """Pairs of holds that share more than an instant."""
    return sum(min(one[1], other[1]) > max(one[0], other[0]) for n, one in enumerate(holds) for other in holds[n + 1 :])


def schedulable(holds: Sequence[Hold]) -> bool:
    """Whether holds with these start windows can follow one another in some order: tries every order and start."""
    possible = [{a: hold.end(a) for a in range(hold.start, hold.latest + 1)} for hold in holds]
    return any(_fits(order, possible) for order in permutations(range(len(holds))))


def comes_after(later: Lease, earlier: Lease, among: Sequence[Lease]) -> bool:
    """Whether `later` certainly came after `earlier`: by tokens if these are right, else by real time or by cores."""
    mixed = any(a.token == b.token or (a.token > b.token and a.ret < b.start) for a, b in permutations(among, 2))
    if all(lease.token >= 0 for lease in among) and not mixed:
        return later.token > earlier.token
    if later.start > earlier.ret:
        return True
    cores = _core(earlier), _core(later)
    return cores[0] is not None and cores[1] is not None and cores[1][0] > cores[0][0]


def _core(lease: Lease) -> tuple[int, int] | None:
    """The time in which the grant was certainly in force, or None."""
    possible = ends(lease)
    latest, end = max(possible, default=0), possible.get(lease.start, 0)
    return (latest, end) if end > latest else None
