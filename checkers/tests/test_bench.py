"""The histories of benchmarks are made as they should be, and judged as they were made. Go is not needed."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from checkers.bench import __main__ as command
from checkers.bench import baseline, generate, timing
from checkers.bench.__main__ import FORMATS, BenchCase, bench
from checkers.bench.generate import GENERATORS, HistoryShape, TooSmall
from checkers.command.exit_status import status_of
from checkers.formats.formats import load_with_defaults
from checkers.history.history import History, malformed
from checkers.linearizability import decide
from checkers.models.model import Settings
from checkers.row_format import INFINITY, Outcome

SMALL = [HistoryShape(400, 2, 1), HistoryShape(400, 2, 40), HistoryShape(600, 10, 1, seed=2)]
SHAPES = [*SMALL, HistoryShape(600, 10, 5, unknown=12, seed=3), HistoryShape(600, 50, 10, unknown=6, seed=4)]


@pytest.mark.parametrize("model", sorted(GENERATORS))
@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_generated_history_has_the_requested_shape_and_verdict(model: str, shape: HistoryShape, bad: bool) -> None:
    try:
        history = GENERATORS[model](shape._replace(bad=bad))
    except TooSmall:
        pytest.skip("no place for a violation")
    assert malformed(history) is None
    assert abs(len(history) - shape.operations) <= 2 * shape.processes + shape.unknown
    assert int(np.sum(history.columns["outcome"] == Outcome.INFO)) == shape.unknown
    assert len(np.unique(history.columns["key"])) > shape.keys * 0.8
    assert decide(history, model, Settings()).valid is not bad


@pytest.mark.parametrize("model", sorted(GENERATORS))
def test_the_same_seed_makes_the_same_history(model: str) -> None:
    one, same, other = (GENERATORS[model](HistoryShape(300, 4, 3, seed=seed)) for seed in (5, 5, 6))
    assert all(np.array_equal(one.columns[name], same.columns[name]) for name in one.columns)
    assert not np.array_equal(one.columns["inv"], other.columns["inv"])


@pytest.mark.parametrize("model", ["mutex", "fenced-store", "cas-register"])
def test_processes_are_busy_and_do_one_thing_at_a_time(model: str) -> None:
    c = GENERATORS[model](HistoryShape(2_000, 10, 20, unknown=20)).columns
    ret = np.where(c["outcome"] == Outcome.INFO, INFINITY, c["ret"])
    busy = 0
    for process in np.unique(c["process"]):
        mine = c["process"] == process
        assert (c["inv"][mine][1:] > ret[mine][:-1]).all()
        answered = mine & (c["outcome"] != Outcome.INFO)
        busy += int((c["ret"][answered] - c["inv"][answered]).sum())
    assert busy > 0.7 * 10 * (c["ret"].max() - c["inv"][0])


def test_a_packed_history_has_the_layout_that_the_go_program_reads() -> None:
    history = generate.mutex(HistoryShape(100, 2, 3, unknown=4))
    data = baseline.packed("mutex", history)
    assert data[:8] == b"FPBENCH1"
    assert np.frombuffer(data[8:32], "<i8").tolist() == [0, len(history), 3]
    assert len(data) == 32 + 38 * len(history)
    assert (np.frombuffer(data[32 + 8 * len(history) :], "<i8", len(history)) == INFINITY).sum() == 4


def test_nil_is_packed_as_the_initial_value_of_a_register() -> None:
    history = generate.cas_register(HistoryShape(20, 2, 1))
    values = (7, None, *range(18))
    columns = {**history.columns, "value": np.arange(20), "base": np.full(20, -1)}
    data = baseline.packed("cas-register", replace(history, columns=columns, values=values))
    assert np.frombuffer(data[32 + 24 * 20 :], "<i8", 3).tolist() == [0, -1, 2]


def test_without_go_there_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda *_args, **_named: None)
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None, raising=False)
    assert status_of(bench, "python -m checkers.bench", ["--quick"]) == 2
    told = capsys.readouterr().err
    assert "go is not installed" in told
    assert "--alone" in told


@pytest.fixture
def one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None, raising=False)
    monkeypatch.setattr(command, "large_cases", lambda **_: [BenchCase("mutex", HistoryShape(2_000, 2, 10, bad=True))])
    monkeypatch.setattr(timing, "compile_for", lambda *_: None)


@pytest.mark.usefixtures("one_case")
def test_tables_without_porcupine(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(bench, "python -m checkers.bench", ["--quick", "--alone", "--part", "large"]) == 0
    form, blank, head, rule, row, end = capsys.readouterr().out.split("\n", 5)
    assert form == timing.form()
    assert not blank
    assert head.count("|") == rule.count("|") == row.count("|")
    assert row.startswith("| mutex | 2,002 | 2 | 10 | bad | 0.0")
    assert not end.strip()


@pytest.mark.usefixtures("one_case")
def test_a_wrong_verdict_is_noticed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(timing, "judge", lambda *_: (True,))
    assert status_of(bench, "python -m checkers.bench", ["--quick", "--alone", "--part", "large"]) == 1
    assert "we say (True,)" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_texts_are_read_as_they_were_meant(name: str, tmp_path: Path) -> None:
    history = generate.cas_register(HistoryShape(400, 5, 7, unknown=9))
    path = tmp_path / name
    path.write_text("".join(FORMATS[name](history)))
    read: History = load_with_defaults(path).history
    assert len(read) == len(history)
    assert decide(read, "cas-register", Settings()).valid
    path.write_text("".join(FORMATS[name](generate.cas_register(HistoryShape(400, 5, 7, bad=True)))))
    assert decide(load_with_defaults(path).history, "cas-register", Settings()).valid is False
