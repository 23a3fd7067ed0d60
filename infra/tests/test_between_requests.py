"""Faults at every message of a verb: which are hit, what is done there, and what is told of it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from infra.backends import BACKENDS
from infra.faults.all_faults import FAULTS
from infra.faults.fault import OURS
from infra.faults.target import Aim, Target, Verb, Victim
from infra.faults.workers import between_requests
from infra.faults.workers.between_requests import BETWEEN_REQUESTS, TWO, WORKLOAD
from infra.faults.workers.walks import MOST, WALKS
from infra.tests.simulated import World

LANE = "redis/pairs/unfenced"
PAIRS = [(2 * n, 2 * n + 1) for n in range(len(WALKS))]
MESSAGES = {"acquire": 3, "release": 2, "renew": 1}
ROUND = int(0.1e9)  # ns; what a round of these workers takes
AT_ONCE, WAITING, RELEASE, RENEW = "acquire at once", "acquire after waiting", "release", "renew"


class Workers(World):
    """Workers in pairs, whose verbs have these many messages: whoever is armed is caught a round later."""

    def __init__(self) -> None:
        super().__init__([])
        self.aims: dict[tuple[int, ...], tuple[Aim, int]] = {}
        self.story: list[tuple[str, str, int, str]] = []
        """(gate, action, message, verb) of who was caught, in order; and who was thawed, or whose place is taken."""
        self.noted: dict[str, tuple[int, list[int]]] = {}
        self.told: set[tuple[tuple[int, ...], int]] = set()

    def lanes(self) -> Sequence[str]:
        return [LANE]

    def pairs(self, lane: str) -> Sequence[tuple[int, ...]]:
        assert lane == LANE
        return PAIRS

    def arm(self, lane: str, aim: Aim) -> None:
        self.aims[aim.among] = (aim, self.time)

    def caught(self, lane: str, among: tuple[int, ...] = ()) -> Sequence[Victim]:
        aim, at = self.aims[among]
        if self.time < at + ROUND or (aim.gate.startswith("at-") and aim.message > MESSAGES[aim.verb]):
            return ()
        if (among, at) not in self.told:
            self.told.add((among, at))
            self.story.append((aim.gate, aim.action, aim.message, aim.verb))
        return [Victim(lane, among[-1], 0, at, f"worker {among[-1]}", among[0] // 2)]

    def disarm(self, lane: str, among: tuple[int, ...] = ()) -> None:
        """What was armed is still asked about."""

    def thaw(self, victim: Victim) -> None:
        self.story.append(("thawed", "", 0, victim.target))

    def settled(self, victim: Victim) -> bool:
        return True

    def rounds(self, lane: str, among: tuple[int, ...], verb: Verb) -> int:
        return self.time // ROUND * len(among)

    def messages(self, lane: str, among: tuple[int, ...], verb: Verb) -> Sequence[int]:
        """Each verb has all of its messages, and one in a hundred has another."""
        return [100] * MESSAGES[verb] + [1] + [0] * MOST

    def revive(self, lane: str) -> None:
        self.story.append(("revived", "", 0, lane))

    def note(self, lane: str, verb: str, messages: int, hit: Sequence[int]) -> None:
        self.noted[verb] = (messages, list(hit))

    def walked(self) -> Target:
        return replace(self.target(), actors=self, clock=self)


@pytest.fixture
def workers() -> Workers:
    return Workers()


@pytest.mark.parametrize("name", [f.name for f in BETWEEN_REQUESTS if f.name != TWO and not f.name.endswith("crash")])
def test_every_message_of_every_verb_is_hit_once(workers: Workers, name: str) -> None:
    hits = FAULTS[name].make("redis", {}).apply(workers.walked())
    every = {AT_ONCE: [1, 2, 3], WAITING: [1, 2, 3], RELEASE: [1, 2], RENEW: [1]}
    assert workers.noted == {verb: (len(numbers), numbers) for verb, numbers in every.items()}
    side, what = ("request" if name.endswith("late") else "answer"), name.rpartition("-")[2]
    verbs = defaultdict(list)
    for gate, action, message, verb in [entry for entry in workers.story if entry[0].startswith("at-")]:
        verbs[verb].append(message)
        assert gate == (f"at-renewal-{side}" if verb == "renew" else f"at-{side}")
        assert action == ("freeze" if what == "pass" else what)
    assert {verb: sorted(numbers) for verb, numbers in verbs.items()} == {
        "acquire": [1, 1, 2, 2, 3, 3], "release": [1, 2], "renew": [1]
    }  # fmt: skip
    assert len(hits) >= sum(map(len, verbs.values()))
    assert all(hit.healed for hit in hits if hit.kind != "kill")
    revived = sum(entry[0] == "revived" for entry in workers.story)
    assert revived == (9 if what == "kill" else 0), "somebody takes the place of each who was killed"


def test_who_was_frozen_goes_on_when_another_holds(workers: Workers) -> None:
    FAULTS["at-every-request-freeze"].make("redis", {}).apply(workers.walked())
    (pair,) = [n for n, walk in enumerate(WALKS) if walk.what == RENEW]
    what = [entry[0] for entry in workers.story if entry[3] == f"worker {2 * pair + 1}" or entry[3] == "renew"]
    frozen = workers.story.index(("at-renewal-answer", "freeze", 1, "renew"))
    after = [entry[0] for entry in workers.story[frozen:]]
    assert what == ["at-renewal-answer", "thawed", "thawed"]
    assert after.index("after-acquire") < after.index("thawed")


def test_of_a_semaphore_all_others_hold_before_one_is_thawed(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its locks have a worker more than permits."""
    threes = [(3 * n, 3 * n + 1, 3 * n + 2) for n in range(len(WALKS))]
    monkeypatch.setattr(Workers, "pairs", lambda *_: threes)
    FAULTS["at-every-request-freeze"].make("redis", {}).apply(workers.walked())
    assert workers.noted[RENEW] == (1, [1])
    frozen = workers.story.index(("at-renewal-answer", "freeze", 1, "renew"))
    after = [entry[0] for entry in workers.story[frozen + 1 :] if entry[3] == f"worker {threes[-1][-1]}"]
    assert [entry[0] for entry in workers.story[frozen:]].count("after-acquire") >= 2
    assert after == ["thawed"] * 3


def test_one_server_crashes_for_each_message_while_all_who_are_at_it_are_frozen(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashes: list[int] = []

    def crash(_: Target) -> Any:
        crashes.append(sum(entry[1] == "freeze" for entry in workers.story))
        return SimpleNamespace(kind="kill", healed=1)

    monkeypatch.setattr(between_requests, "crash_one", crash)
    FAULTS["at-every-request-crash"].make("redis", {}).apply(workers.walked())
    assert (workers.noted[AT_ONCE], workers.noted[WAITING]) == ((3, [1, 2, 3]), (3, [1, 2, 3]))
    assert crashes == [4, 7, 9]  # of the first message four pairs, of the second three, of the third two


def test_of_two_each_is_frozen_at_every_message_while_the_other_is(workers: Workers) -> None:
    hits = FAULTS[TWO].make("redis", {}).apply(workers.walked())
    others = MESSAGES["acquire"] + MESSAGES["release"]
    tries = sum(MESSAGES[verb] for verb in ("acquire", "acquire", "release")) * others
    tries += MESSAGES["renew"] * (others + MESSAGES["renew"])
    assert workers.noted["two at once"] == (tries, list(range(1, tries + 1)))
    assert workers.noted[RELEASE] == (2, [1, 2])
    assert sum(hit.kind == "freeze" for hit in hits) == 2 * tries
    assert all(hit.healed for hit in hits)
    (pair,) = [n for n, walk in enumerate(WALKS) if walk.what == RENEW]
    what = [entry for entry in workers.story if entry[3] in ("renew", *(f"worker {n}" for n in PAIRS[pair]))]
    # Renewals are caught among both, and the second of these two is frozen while the first ends what it was at.
    assert what[-4:] == [
        ("at-renewal-answer", "freeze", 1, "renew"),
        ("at-renewal-answer", "freeze", 1, "renew"),
        *(("thawed", "", 0, f"worker {n}") for n in reversed(PAIRS[pair])),
    ]


def test_whoever_never_comes_is_given_up(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workers, "caught", lambda *_: ())
    assert FAULTS["at-every-request-freeze"].make("redis", {}).apply(workers.walked()) == []
    assert workers.noted[RELEASE] == (2, [])


def test_they_are_possible_only_where_a_tap_stands() -> None:
    untapped = OURS.without("tap", "no tap")
    for fault in BETWEEN_REQUESTS:
        assert all(fault.applies(name) is None and fault.applies(name, untapped) == "no tap" for name in BACKENDS)
        assert fault.workload == WORKLOAD
