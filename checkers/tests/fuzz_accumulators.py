"""Sets, counters and identities against exhaustive search and their definitions in words."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

from checkers.engines.set_full import certify, set_full
from checkers.models.model import UNSET, Settings
from checkers.row_format import F
from checkers.tests.acts import Act, Drawn, Kind, calls, disturbed, drawn, history_of, searched, silent
from checkers.tests.compare import Disagreement


def set_step(state: frozenset[Hashable], act: Act, *, settings: Settings) -> Iterator[frozenset[Hashable]]:
    """State: the elements."""
    if act.f == F.ADD:
        yield state | {act.value}
    elif silent(act, settings) or state == frozenset(act.value or ()):
        yield state


def set_acts(rng: Random, initial: Sequence[Hashable]) -> list[Act]:
    """Additions, some of one element twice, and reads of the whole."""
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


def set_settings(rng: Random) -> Settings:
    """Any."""
    initial = rng.choice(((), (), (2, 9)))
    return Settings(initial=initial or UNSET, nil_read=rng.choice(("value", "value", "unknown")))


def sets(rng: Random, settings: Settings) -> Drawn:
    """One linearizable set."""
    initial = () if settings.initial is UNSET else settings.initial
    acts = set_acts(rng, initial)
    return drawn(acts, frozenset(initial), partial(set_step, settings=settings))


def counter_step(state: int, act: Act, *, settings: Settings) -> Iterator[int]:
    """State: the number."""
    if act.f == F.ADD:
        yield state + (1 if act.value in (None, UNSET) else act.value)
    elif silent(act, settings) or (act.value is not None and act.value == state):
        yield state


def counter_settings(rng: Random) -> Settings:
    """Any."""
    return Settings(initial=rng.choice((UNSET, UNSET, 5)), nil_read=rng.choice(("value", "unknown")))


def counters(rng: Random, settings: Settings, *, alike: bool) -> Drawn:
    """One counter, whose additions are all alike or not."""
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
    """Identities handed out, by their definition."""
    acts = [
        Act(F.GENERATE, rng.choice(("ok", "ok", "info", "fail")), rng.choice((UNSET, *range(12))), n + 1, n + 3)
        for n in range(rng.randint(1, 5))
    ]
    got = [act.value for act in acts if act.outcome == "ok" and act.value is not UNSET]
    return acts, len(set(got)) == len(got)


def fully(rng: Random) -> str:
    """What became of the elements of a set, by the definitions in words."""
    acts = set_acts(rng, ())
    settings = Settings(nil_read=rng.choice(("value", "value", "unknown")))
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


CHECKS: dict[str, Callable[[Random], str]] = {
    "set": partial(searched, kind=Kind("set", set_settings, sets)),
    "counter": partial(searched, kind=Kind("counter", counter_settings, partial(counters, alike=True))),
    "counter-uneven": partial(searched, kind=Kind("counter", counter_settings, partial(counters, alike=False))),
    "unique-ids": partial(searched, kind=Kind("unique-ids", lambda _: Settings(), identities)),
    "set-full": fully,
}
