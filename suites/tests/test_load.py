"""The load that a user sets for lanes and workers, how often a run is repeated, and what a machine carries."""

import functools
import os
import signal
import time
import zlib
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import numpy.typing as npt
import pytest

from checkers.history.history import read_recording
from checkers.row_format import F
from checkers.tests.build import cases, message_of
from suites import rounds
from suites.lanes.lane import WORKLOADS, Lane, Load, key_names, lanes_of
from suites.lock import LockClient, now
from suites.locks import registry
from suites.selection.shards import expected
from suites.terminal import to_come
from suites.tests.bench import MODULE, await_, specs, started
from suites.tests.selections import asked, collected, refused
from suites.trial import launch
from suites.trial.metadata import about
from suites.worker.pool import ForkServer
from suites.worker.process_spec import Spec
from suites.worker.worker import HOT_SHARE


def lane(name: str, load: Load) -> Lane:
    lock, workload, _ = name.split("/")
    made = lanes_of(lock, registry.load(lock), replace(load, workload=(workload,)))
    return next(lane for lane in made if lane.name == name)


@cases(
    "name, load, workers, keys, ttl",
    ("as it is", "redis/set/unfenced", Load(), 3, 1, 0.6),
    ("as it is asked for", "redis/set/unfenced", Load(workers=30, keys=1_000, ttl=30.0), 30, 1_000, 30.0),
    ("two of each order", "redis/transfer/unfenced", Load(workers=2, keys=9), 4, 2, 0.6),
    ("six are even", "redis/transfer/unfenced", Load(workers=6), 6, 2, 0.6),
    ("one more than permits", "redis-semaphore/work/unfenced", Load(workers=2), 3, 1, 0.6),
    ("its own TTL", "ttl-too-short/set/unfenced", Load(ttl=30.0), 3, 1, 0.2),
)
def test_a_lane_fits_workers_keys_and_ttl_to_a_load(name: str, load: Load, workers: int, keys: int, ttl: float) -> None:
    made = lane(name, load)
    assert (made.workers, made.keys, made.ttl) == (workers, keys, ttl)


@cases(
    "least, workload, load, asked, later",
    ("whole", 1.0, "set", Load(), 1.3, 1.0),
    ("not whole", 0.7, "set", Load(), 0.7, 0.0),
    ("least of the workload", 1.0, "impatient", Load(), 2.3, 2.0),
    ("the user's", 1.0, "set", Load(ttl=4.0), 4.0, 3.0),
)
def test_a_lock_may_round_its_ttl_up(least: float, workload: str, load: Load, asked: float, later: float) -> None:
    mine: type[LockClient] = type("Mine", (registry.load("redis"),), {"min_ttl": least})
    made = Lane("mine.py:Mine", mine, WORKLOADS[workload], "unfenced", load)
    assert made.ttl == pytest.approx(asked)
    assert made.bounds["recovery"] - mine.bounds["recovery"] == pytest.approx(later)


def test_a_session_that_is_seldom_kept_alive_may_end_earlier_and_is_believed_longer() -> None:
    usual, long = (lane("zookeeper/set/unfenced", Load(ttl=ttl)) for ttl in (None, 30.0))
    assert (usual.grain, usual.bounds) == (0.8, usual.lock.bounds)
    assert long.grain == pytest.approx(0.8 + 28.0 / 3)
    assert long.bounds["honest-belief"] - usual.bounds["honest-belief"] == pytest.approx(28.0 / 3)


@cases(
    "name, later",
    ("a key outlives the server's restart", "redis/set/unfenced", 29.4),
    ("a session its client", "zookeeper/set/unfenced", 28.0),
    ("no lease, nothing to outlive", "postgres-session/set/unfenced", 0.0),
)
def test_recovery_takes_as_much_longer_as_leases_last(name: str, later: float) -> None:
    long = lane(name, Load(ttl=30.0))
    assert long.bounds["recovery"] - long.lock.bounds["recovery"] == pytest.approx(later)
    assert long.bounds["fail-fast"] == long.lock.bounds["fail-fast"]


@cases(
    "option, says",
    ("one worker", "--workers=1", "--workers 1: expected a whole number from 2 to 1000: with one worker nothing is"),
    ("fewer", "--workers=-3", "--workers -3: expected a whole number"),
    ("no key", "--keys=0", "--keys 0: expected a whole number from 1 to"),
    ("many keys", "--keys=99999999999", "--keys 99999999999: expected a whole number"),
    ("no TTL", "--ttl=nan", "--ttl nan: expected a number above 0"),
    ("no rate", "--rate=0", "--rate 0: expected a number above 0"),
    ("a word", "--duration=ten", "--duration ten: expected a number above 0"),
    ("no run", "--count=0", "--count 0: expected a whole number from 1"),
    ("no seed", "--seed=1.5", "--seed 1.5: expected a whole number"),
    ("no workload", "--workload=nope", "unknown workload 'nope'; there are: register, set,"),
    ("a short TTL", "--ttl=0.5", "--ttl 0.5: redis needs 0.6 s or more (--lock)"),
)
def test_an_impossible_load_is_refused_in_one_line(option: str, says: str) -> None:
    done = collected(option)
    assert (done.returncode, done.stdout, done.stderr.strip().count("\n")) == (4, "", 0)
    assert done.stderr.startswith(f"ERROR: {says}")


def test_a_named_workload_is_tried_undeclared_unless_the_lock_cannot_run_it() -> None:
    selection = asked(lock=["redis"], workload=["transfer"], faults=["none"])
    assert [lane.name for lane in selection.lanes] == ["redis/transfer/unfenced"]
    assert "no workload share" in refused(lock=["redis"], workload=["share"])
    for lock, lacks in (
        ("get-then-del", "renews nothing, and each hold of churn"),
        ("postgres-xact", "holds one lock at"),
    ):
        assert to_come(asked(lock=[lock], workload=["churn"]), 1).startswith(f"to come: nothing: {lock} {lacks}")


def test_the_load_is_stored_with_the_trial_and_counted_in_its_expected_time() -> None:
    given: dict[str, Any] = {"lock": ["redis"], "workload": ["set"], "faults": ["none"]}
    plain, loaded = asked(**given), asked(**given, workers=5, ttl=30.0, duration=600.0)
    trials = [*plain.trials(), *loaded.trials()]
    assert about(trials[1])["load"] == {"workload": ("set",), "workers": 5, "ttl": 30.0, "duration": 600.0}
    assert (about(trials[0])["load"], about(trials[1])["ttl"]) == ({"workload": ("set",)}, {"redis": 30.0})
    assert trials[1].seconds - trials[0].seconds > 500
    assert expected(trials[0].plan_to_run(), 0.6, 1, 100.0) > 100


def test_one_of_many_keys_stays_contended(tmp_path: Path) -> None:
    many = [replace(spec, keys=tuple(map(str, range(500))), pace=0.0) for spec in specs(str(tmp_path), "Free")]
    rows, _ = _worked(many, 300)
    keys = Counter(rows["key"][rows["f"] == F.ACQUIRE].tolist())
    assert 0.4 < keys[0] / keys.total() < HOT_SHARE + 0.15
    assert len(keys) > 60


def test_an_open_loop_begins_rounds_at_its_rate(tmp_path: Path) -> None:
    rows, go = _worked([replace(spec, pace=0.0, rate=40.0) for spec in specs(str(tmp_path), "Free")], 100)
    begun = rows["inv"][rows["f"] == F.ACQUIRE]
    seconds = (begun.max() - go) / 1e9  # a worker that was late catches up
    assert len(begun) / seconds < 2 * 3 * 40.0, "three workers, each forty times a second, and the chance of more"


@cases(
    "option, answers, seeds, status",
    ("three", {"count": 3}, [0, 1, 0], [5, 6, 7], 1),
    ("two", {"count": 2}, [0, 0], [5, 6], 0),
    ("ends by another status", {"count": 3}, [0, 2], [5, 6], 2),
    ("until one fails", {"count": 3, "until_failed": True}, [0, 1], [5, 6], 1),
    ("for as long as none fails", {"until_failed": True}, [0, 0, 0, 1], [5, 6, 7, 8], 1),
)
def test_each_run_has_the_next_seed(option: dict[str, Any], answers: list[int], seeds: list[int], status: int) -> None:
    words = ["suites/", "--count", "3", "--lock", "redis", "--until-failed", "--seed=5", "-q"]
    given = Namespace(**{"resume": None, "count": None, "until_failed": False, "seed": 5, **option})
    assert rounds.several(given)
    with patch.object(rounds, "run_pytest", side_effect=answers) as run:
        assert rounds.run_all(given, words, Path()) == status
    ran = [call.args[0] for call in run.call_args_list]
    assert ran == [["suites/", "--lock", "redis", "-q", "--seed", str(seed)] for seed in seeds]


def test_a_run_that_gets_a_sigterm_counts_as_interrupted_however_it_ends(tmp_path: Path) -> None:
    with patch("subprocess.Popen") as run:
        run.return_value.wait.side_effect = functools.partial(signal.raise_signal, signal.SIGTERM)
        assert rounds.run_pytest([], tmp_path) == pytest.ExitCode.INTERRUPTED
        assert message_of(rounds.Unfinished, rounds.run_in, tmp_path, []).startswith("this run did not come")
    assert run.return_value.terminate.call_count == 2


def test_pytest_repeats_a_run_only_if_several_runs_are_asked_for() -> None:
    for resume, count, until_failed in ((None, None, False), (None, 1, False), ("last", 3, True)):
        assert not rounds.several(Namespace(resume=resume, count=count, until_failed=until_failed))
    with patch.object(rounds, "run_pytest", return_value=0) as run:
        assert collected("--count", "2", "--lock", "redis").returncode == 0
    assert [call.args[0][-2:] for call in run.call_args_list] == [["--seed", "1"], ["--seed", "2"]]


def _worked(given: Sequence[Spec], least: int) -> tuple[npt.NDArray[Any], int]:
    """What workers recorded until each had asked more than `least` times, and when (ns) they were about to begin."""
    with closing(ForkServer([f"{MODULE}:Free"])) as server:
        handles, go = started(server, given), now()
        await_(lambda: all((read_recording(each.spec.recording)["f"] == F.ACQUIRE).sum() > least for each in handles))
        return np.concatenate([read_recording(handle.spec.recording).copy() for handle in handles]), go


def test_three_names_collide_in_common_hashes_and_the_others_begin_with_the_first() -> None:
    def java(name: str) -> int:
        return functools.reduce(lambda code, letter: (31 * code + ord(letter)) & 0xFFFFFFFF, name, 0)

    names = key_names("redis.churn.unfenced.1f", 5)
    assert len(set(names)) == 5
    for number in (java, lambda name: zlib.crc32(name.encode())):
        assert len(set(map(number, names))) == 3
        assert number(names[0]) == number(names[1]) == number(names[2])
    assert [name.startswith(f"{names[0]}:") for name in names] == [False] * 3 + [True] * 2
    assert (key_names("alone", 1), len(key_names("two", 2))) == (("alone.0",), 2)


@cases("cores, n, workers", (2, None, 60), (2, 1, 60), (2, 2, 30), (4, 2, 60), (16, 2, 60), (1, 1, 30), (None, 2, 30))
def test_a_trial_has_as_many_workers_as_the_cores_carry(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, n: int | None, workers: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    if n is not None:
        monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", str(n))
    assert (launch.fit(), launch.fit(0.5)) == (workers, workers / 2)


@pytest.mark.parametrize(("ran", "share"), [(1.0, 0.5), (0.5, 0.25), (0.01, 0.125)])
def test_the_share_of_a_core_counts_speed_and_time(ran: float, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core has half the speed; the clock advances with every message. ran: share of the time in which it ran."""
    moments = [2 * passed / launch.MESSAGES / ran for passed in range(2 * int(launch.PROBE * launch.MESSAGES))]
    wall = Mock(side_effect=moments)
    monkeypatch.setattr(time, "perf_counter", wall)
    monkeypatch.setattr(time, "thread_time", lambda: moments[wall.call_count - 1] * ran)
    assert launch.share_of_a_core() == pytest.approx(share, rel=0.01)
