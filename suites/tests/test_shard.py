"""`--shard i/n`: the shards together are the whole, each of about the same length, each backend booted few times."""

from collections import Counter
from functools import cache

import pytest

from checkers.properties.all_properties import PROPERTIES
from infra.faults.plan import Plan, Step
from suites.selection import shards
from suites.selection.bad_option import BadOption
from suites.selection.selection import Selection
from suites.selection.shards import Shard, cut, parse
from suites.tests.selections import asked, collected, refused

PROFILES = ("smoke", "default", "nightly")
MANY = (1, 7, 61)
GOOD = ["1/1", "1/2", "2/2", "1000/1000"]


@cache
def whole(profile: str) -> Selection:
    return asked(profile=profile)


def questions(run: Selection) -> list[tuple[str, str, str]]:
    """(property, lane, fault) of every test, those that cannot be asked included."""
    return [(name, case.lane.name, case.fault) for name in PROPERTIES for case in run.cases(name)]


def load(run: Selection) -> dict[tuple[str, str, int], float]:
    """(backend, fault, number of the trial) → seconds, of the trials that the shard's tests rest on."""
    asked_of = {(case.lane, case.fault) for name in PROPERTIES for case in run.cases(name) if case.because is None}
    return {
        (trial.backend, trial.fault, number): trial.seconds
        for number, trial in enumerate(run.trials())
        if any((lane, trial.fault) in asked_of for lane in trial.lanes)
    }


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("n", MANY)
def test_the_shards_together_are_the_whole_and_no_test_is_in_two(profile: str, n: int) -> None:
    """By the place of each lane under each fault; `test_what_a_shard_asks` follows them into the tests."""
    run = whole(profile)
    places = run.places(n)
    assert places.keys() == {(lane, fault) for lane in run.lanes for fault in run.faults}
    assert set(places.values()) <= set(range(1, n + 1))
    assert {len({places[lane, trial.fault] for lane in trial.lanes}) for trial in run.trials()} == {1}
    i = (n + 1) // 2
    assert run.only(Shard(i, n)).elsewhere == {where for where, number in places.items() if number != i}


@pytest.mark.parametrize(("options", "n"), [({"profile": "smoke"}, 5), ({"lock": ["redis", "etcd"]}, 2)])
def test_what_a_shard_asks(options: dict[str, object], n: int) -> None:
    run = asked(**options)
    parts = [run.only(Shard(i, n)) for i in range(1, n + 1)]
    asks = [question for part in parts for question in questions(part)]
    assert sorted(asks) == sorted(questions(run))
    assert Counter(item for part in parts for item in part.not_run()) == Counter(run.not_run())
    trials = [trial for part in parts for trial in load(part)]
    assert sorted(trials) == sorted(load(run)), "no trial is run by two of them"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("n", MANY)
def test_they_take_about_as_long_as_each_other_and_few_boot_a_backend(profile: str, n: int) -> None:
    run = whole(profile)
    trials = run.trials()
    seconds = [trial.seconds for trial in trials]
    numbers = cut(seconds, n)
    loads = [sum(each for each, number in zip(seconds, numbers, strict=True) if number == i) for i in range(1, n + 1)]
    assert max(loads) <= sum(seconds) / n + max(seconds)
    assert min(loads) >= sum(seconds) / n - max(seconds)
    boots = set(zip((trial.backend for trial in trials), numbers, strict=True))
    assert len(boots) <= len(run.backends) + n - 1


def test_each_boots_only_what_it_runs() -> None:
    run = whole("default")
    first, last = run.only(Shard(1, 8)), run.only(Shard(8, 8))
    assert (first.booted, last.booted) == (("redis",), ("postgres",))
    assert first.backends == run.backends, "and its trials are those of the whole, with the same parts"
    assert run.booted == run.backends


def test_what_cannot_be_asked_is_told_once_where_its_backend_is() -> None:
    run = asked(lock=["redis", "etcd"], faults=["none", "clock-jump-forward"])
    told = {i: {one.backend for one in run.only(Shard(i, 2)).not_run()} for i in (1, 2)}
    assert told == {1: {"redis"}, 2: {"etcd"}} or told == {1: set(), 2: {"etcd"}}
    assert {one.fault for one in run.only(Shard(2, 2)).not_run()} == {"clock-jump-forward"}


def test_more_shards_than_trials_leave_some_with_nothing() -> None:
    run = asked(lock=["redis"], faults=["none"])
    sizes = [len(questions(run.only(Shard(i, 5)))) for i in range(1, 6)]
    assert sorted(sizes) == [0, 0, 0, 0, len(questions(run))]
    nothing = asked(lock=["etcd"], faults=["clock-jump-forward"])
    assert nothing.trials() == []
    assert [len(nothing.only(Shard(i, 2)).not_run()) > 0 for i in (1, 2)] == [True, False], "the first tells of it"


def test_the_cut_is_the_same_every_time_and_keeps_the_order() -> None:
    costs = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]
    assert cut(costs, 3) == cut(list(costs), 3) == [1, 1, 1, 1, 2, 2, 3, 3]
    assert cut(costs, 1) == [1] * 8
    assert cut([], 3) == []
    assert cut([1.0], 3) == [2]


def test_overlapping_steps_take_the_time_of_the_longest() -> None:
    long, short, last = "kill-server", "pause-server", "lose-replies"
    steps = (Step(long, 1.0, 5.0, {}), Step(short, 0.5, 1.0, {}, beside=True), Step(last, 1.0, 2.0, {}))
    plan, calm = Plan("p", "redis", 1, steps), Plan("none", "redis", 1, ())
    assert shards.expected(plan, 1.0, 4) - shards.expected(calm, 1.0, 4) == pytest.approx(9.0)
    assert shards.expected(calm, 1.0, 8) > shards.expected(calm, 1.0, 4)


def test_another_version_takes_its_time_and_an_environment_of_its_own() -> None:
    once, twice = (Plan("p", "redis", 1, (Step("roll-version", 1.0, 1.0, {}),) * times) for times in (1, 2))
    killed = Plan("p", "redis", 1, (Step("kill-server", 1.0, 1.0, {}),))
    roll = shards.expected(once, 1.0, 4) - shards.expected(killed, 1.0, 4)
    assert roll == pytest.approx(shards.LASTS + shards.OWN)
    assert shards.expected(twice, 1.0, 4) - shards.expected(once, 1.0, 4) == pytest.approx(shards.LASTS + 2.0)


@pytest.mark.parametrize(
    "text", ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1/1001", "01/2", " 1/2", "1/2\n", "1.0/2", "²/3"]
)
def test_what_is_no_shard_says_what_is(text: str) -> None:
    assert [str(parse(good)) for good in GOOD] == GOOD
    with pytest.raises(BadOption, match="expected I/N"):
        parse(text)
    assert "--shard" in refused(lock=["redis"], shard=text)


def test_pytest_collects_a_shard() -> None:
    lists = [collected("--lock", "redis", "--faults", "none,freeze-holder", "--shard", f"{i}/2") for i in (1, 2)]
    assert [done.returncode for done in lists] == [0, 0]
    columns = [{line.rpartition("-")[2] for line in done.stdout.splitlines() if "redis/" in line} for done in lists]
    assert columns == [{"none]"}, {"holder]"}]
