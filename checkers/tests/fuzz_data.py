"""Compares registers (one or several), maps with append, sets, counters and identities with exhaustive search."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any, Final, Literal

from checkers.engines.set_full import certify, set_full
from checkers.models.kv import holds_lists
from checkers.models.model import UNSET, Settings
from checkers.row_format import F
from checkers.tests.acts import Act, Drawn, Kind, batched, calls, disturbed, drawn, history_of, searched, silent
from checkers.tests.brute import linearizable
from checkers.tests.build import Disagreement

READ: Final = F.READ  # a name of the module is looked up faster than a member of an enumeration
WRITE: Final = F.WRITE
CAS: Final = F.CAS


def register_step(state: Hashable, act: Act, *, settings: Settings) -> tuple[Hashable, ...]:
    f, outcome, value = act[:3]
    if f == WRITE:
        return () if outcome == "fail" else (value,)
    if f == READ:
        return (state,) if silent(act, settings) or value == state else ()
    if outcome == "fail":
        return (state,) if settings.failed_cas == "ignored" or act.base != state else ()
    return (value,) if act.base == state else ()


def register_acts(rng: Random, *, swaps: bool, initial: Hashable) -> list[Act]:
    """A register that works, with answers that come late or never. Then one operation may be disturbed."""
    acts: list[Act] = []
    state, past = initial, [initial]
    pool = rng.choice((0, 0, 0, 2, 3))
    for place, inv, ret, outcome, happens in calls(rng):
        kind = rng.choice((READ, READ, WRITE, CAS, CAS)) if swaps else rng.choice((READ, READ, WRITE))
        value = rng.randint(1, pool) if pool else place + 1
        if kind == READ:
            seen = state if rng.random() < 0.85 else rng.choice(past)
            seen = rng.choice((None, UNSET)) if rng.random() < 0.06 else seen
            acts.append(Act(kind, outcome, seen if outcome == "ok" else UNSET, inv, ret))
            continue
        base: Any = UNSET
        if kind == CAS:
            base = state if rng.random() < 0.85 else rng.choice([*past, value, 99])
            if base != state and rng.random() < 0.9:
                happens = False
                outcome = "fail" if outcome == "ok" else outcome
            elif outcome == "fail" and rng.random() < 0.9:
                outcome, happens = "ok", True
            if rng.random() < 0.03:
                value = base
        acts.append(Act(kind, outcome, value, inv, ret, base))
        if happens:
            state = value
            past.append(value)
    return disturbed(acts, rng)


def drawn_settings(rng: Random, *, initial: Sequence[object] = (UNSET,)) -> Settings:
    first = rng.choice(initial)
    failed_cas: Literal["observes", "ignored"] = rng.choice(("observes", "ignored"))
    return Settings(initial=first, failed_cas=failed_cas, nil_read=rng.choice(("value", "unknown")))


def registers(rng: Random, settings: Settings, *, swaps: bool) -> Drawn:
    initial = None if settings.initial is UNSET else settings.initial
    acts = register_acts(rng, swaps=swaps, initial=initial)
    kept = [a for a in acts if a.outcome != "fail" or (a.f == F.CAS and settings.failed_cas == "observes")]
    return acts, linearizable(kept, initial, partial(register_step, settings=settings))


Written = frozenset[tuple[str, Any]]


def many_step(state: Written, act: Act, *, settings: Settings) -> Iterator[Written]:
    """State: the written values. A single read or write is a transaction with one part."""
    values = dict(state)
    parts = act.value if act.f == F.TRANSACT else (({F.READ: "r", F.WRITE: "w"}[act.f], act.key, act.value),)
    for kind, key, value in parts:
        if kind in ("w", "write"):
            values[key] = value
        elif not silent(act._replace(value=value), settings) and values.get(key) != value:
            return
    yield frozenset(values.items())


def many(rng: Random, settings: Settings) -> Drawn:
    acts: list[Act] = []
    values: dict[str, Any] = {}
    single = rng.random() < 0.4
    for place, inv, ret, outcome, happens in calls(rng, 6):
        before = dict(values)
        parts = []
        for n in range(1 if single else rng.randint(1, 3)):
            key = rng.choice("ab")
            if rng.random() < 0.5:
                values[key] = place * 4 + n
                parts.append((rng.choice(("w", "write")), key, values[key]))
            else:
                seen = values.get(key) if rng.random() < 0.88 else rng.choice((None, 0, 1, 5))
                parts.append((rng.choice(("r", "read")), key, seen if outcome == "ok" else None))
        if not happens:
            values = before
        if len(parts) == 1 and rng.random() < 0.5:
            kind, key, value = parts[0]
            acts.append(Act(F.READ if kind[0] == "r" else F.WRITE, outcome, value, inv, ret, key=key))
        else:
            acts.append(Act(F.TRANSACT, outcome, tuple(parts), inv, ret))
    acts = disturbed(acts, rng)
    return drawn(acts, frozenset(), partial(many_step, settings=settings))


def kv_step(state: Any, act: Act, *, lists: bool, settings: Settings) -> Iterator[Any]:
    """State: the value. If nothing was written, it is the empty string, or the empty tuple for lists."""
    nothing: Any = () if lists else ""
    value = nothing if act.value in (None, "", ()) else act.value
    if act.f == F.WRITE:
        yield value
    elif act.f == F.APPEND:
        if isinstance(state, tuple if lists else str):
            yield (*state, act.value) if lists else state + value
    else:
        if silent(act._replace(value=None if value == nothing else act.value), settings) or value == state:
            yield state


def kv_acts(rng: Random, *, lists: bool) -> list[Act]:
    """Mostly appends. Some histories write too, or append the same value twice."""
    acts: list[Act] = []
    state: Any = () if lists else ""
    writes = rng.random() < 0.25
    again = rng.random() < 0.15
    for place, inv, ret, outcome, happens in calls(rng):
        if rng.random() < 0.45:
            seen = state if rng.random() < 0.85 else state[: rng.randint(0, 3)] + state[:1]
            if not seen:
                seen = rng.choice((None, "", ()))
            acts.append(Act(F.READ, outcome, seen if outcome == "ok" else UNSET, inv, ret))
            continue
        part: Any = rng.choice("pq") if again else "pqrstuvw"[place]
        part = place if lists and rng.random() < 0.5 else part * rng.choice((1, 1, 1, 2))
        f = F.WRITE if writes and rng.random() < 0.3 else F.APPEND
        whole = (part,) if f == F.WRITE and lists else part
        acts.append(Act(f, outcome, whole, inv, ret))
        if happens:
            state = whole if f == F.WRITE else (*state, part) if lists else state + part
    return disturbed(acts, rng)


def maps(rng: Random, settings: Settings, *, lists: bool) -> Drawn:
    acts = kv_acts(rng, lists=lists)
    while holds_lists(history_of(acts)) is not lists:
        acts = kv_acts(rng, lists=lists)
    return drawn(acts, () if lists else "", partial(kv_step, lists=lists, settings=settings))


def set_step(state: frozenset[Hashable], act: Act, *, settings: Settings) -> Iterator[frozenset[Hashable]]:
    if act.f == F.ADD:
        yield state | {act.value}
    elif silent(act, settings) or state == frozenset(act.value or ()):
        yield state


def set_acts(rng: Random, initial: Sequence[Hashable]) -> list[Act]:
    """Additions, some of the same element twice, and reads of the whole set."""
    acts: list[Act] = []
    state = list(initial)
    for place, inv, ret, outcome, happens in calls(rng):
        if rng.random() < 0.5:
            seen: Any = [*state]
            if rng.random() < 0.18:
                seen = rng.choice(([*seen[:-1]], [*seen, 77], [*seen, *seen[:1]], [*seen[1:]]))
            rng.shuffle(seen)
            seen = rng.choice((tuple(seen), frozenset(seen))) if seen else rng.choice((None, ()))
            acts.append(Act(F.READ, outcome, seen if outcome == "ok" else UNSET, inv, ret))
            continue
        element = rng.choice((place, place, place, rng.randint(0, 3)))
        acts.append(Act(F.ADD, outcome, element, inv, ret))
        if happens and element not in state:
            state.append(element)
    return disturbed(acts, rng)


def sets(rng: Random, settings: Settings) -> Drawn:
    initial = () if settings.initial is UNSET else settings.initial
    return drawn(set_acts(rng, initial), frozenset(initial), partial(set_step, settings=settings))


def counter_step(state: int, act: Act, *, settings: Settings) -> Iterator[int]:
    if act.f == F.ADD:
        yield state + (1 if act.value in (None, UNSET) else act.value)
    elif silent(act, settings) or (act.value is not None and act.value == state):
        yield state


def counters(rng: Random, settings: Settings, *, alike: bool) -> Drawn:
    initial = 0 if settings.initial is UNSET else settings.initial
    pool = (rng.choice((1, 1, 2, -1, -3)),) if alike else rng.choice(((1, 2), (1, 3, 5), (-2, -1), (1, -1), (0, 1, 2)))
    acts: list[Act] = []
    state = initial
    for _, inv, ret, outcome, happens in calls(rng):
        if rng.random() < 0.45:
            seen: Any = state if rng.random() < 0.85 else state + rng.choice((-2, -1, 1, 1, 2))
            seen = rng.choice((None, UNSET)) if rng.random() < 0.05 else seen
            acts.append(Act(F.READ, outcome, seen if outcome == "ok" else UNSET, inv, ret))
            continue
        number = rng.choice(pool)
        acts.append(Act(F.ADD, outcome, rng.choice((None, UNSET, 1)) if number == 1 else number, inv, ret))
        if happens:
            state += number
    acts = disturbed(acts, rng)
    return drawn(acts, initial, partial(counter_step, settings=settings))


def identities(rng: Random, _settings: Settings) -> Drawn:
    acts = [
        Act(F.GENERATE, rng.choice(("ok", "ok", "info", "fail")), rng.choice((UNSET, *range(12))), n + 1, n + 3)
        for n in range(rng.randint(1, 5))
    ]
    got = [act.value for act in acts if act.outcome == "ok" and act.value is not UNSET]
    return acts, len(set(got)) == len(got)


def fully(rng: Random) -> str:
    """Judges what became of the elements of a set, by the definitions in words."""
    acts = set_acts(rng, ())
    settings = drawn_settings(rng)
    adds = [a for a in acts if a.f == F.ADD and a.outcome != "fail"]
    reads = [a for a in acts if a.f == F.READ and a.outcome == "ok" and not silent(a, settings)]
    bad = lost = stable = 0
    for read in reads:
        for element in set(read.value or ()):
            mine = [a for a in adds if a.value == element]
            times = sum(other == element for other in read.value)
            bad += all(a.inv > read.ret for a in mine) or times > max(1, len(mine))
    for element in {a.value for a in adds}:
        known = [a.ret for a in adds if a.value == element and a.outcome == "ok"]
        known += [read.ret for read in reads if element in (read.value or ())]
        present = max((read.inv for read in reads if element in (read.value or ())), default=0)
        absent = max((read.inv for read in reads if element not in (read.value or ())), default=0)
        lost += min(known, default=absent) < absent and present < absent
        stable += present > 0 and absent <= present
    history = history_of(acts)
    answer = set_full(history, settings)
    truth = not bad and not lost
    if bool(answer.conflicts) is truth or bool(answer.undecided) is not (truth and not stable):
        raise Disagreement(f"{answer}, in truth {bad} bad, {lost} lost, {stable} stable:\n{acts}")
    for conflict in answer.conflicts:
        if (wrong := certify(history, settings, False, conflict.rows)) is not None:
            raise Disagreement(f"{conflict}: {wrong}\n{acts}")
    if truth and (wrong := certify(history, settings, True, answer.order().tolist())) is not None and stable:
        raise Disagreement(f"{wrong}\n{acts}")
    return f"{'valid' if truth else 'invalid'}{', undecided' if answer.undecided else ''}"


REGISTERS: Final = partial(drawn_settings, initial=(UNSET, UNSET, 0, 1))
COUNTERS: Final = partial(drawn_settings, initial=(UNSET, UNSET, 5))
SETS: Final = partial(drawn_settings, initial=(UNSET, UNSET, (2, 9)))

CHECKS: dict[str, Callable[[Random], str]] = {
    "register": batched(Kind("register", REGISTERS, partial(registers, swaps=False))),
    "cas-register": batched(Kind("cas-register", REGISTERS, partial(registers, swaps=True))),
    "kv-strings": partial(searched, kind=Kind("kv", drawn_settings, partial(maps, lists=False))),
    "kv-lists": partial(searched, kind=Kind("kv", drawn_settings, partial(maps, lists=True))),
    "multi-register": partial(searched, kind=Kind("multi-register", drawn_settings, many)),
    "set": partial(searched, kind=Kind("set", SETS, sets)),
    "counter": partial(searched, kind=Kind("counter", COUNTERS, partial(counters, alike=True))),
    "counter-uneven": partial(searched, kind=Kind("counter", COUNTERS, partial(counters, alike=False))),
    "unique-ids": partial(searched, kind=Kind("unique-ids", lambda _: Settings(), identities)),
    "set-full": fully,
}
