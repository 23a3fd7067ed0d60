"""Holds: where they begin, where they end, when their leases may, and that they are made once a history."""

from dataclasses import replace
from pathlib import Path

import pytest

from checkers.check import check
from checkers.history.history import History, from_rows
from checkers.history.holds_and_leases import Holds
from checkers.history.view import View
from checkers.judging.judgement import judge_all
from checkers.row_format import INFINITY, F
from results.pages import trial_page
from results.record import LaneRecord
from results.report import short_story
from results.tests import samples
from results.tests.samples import MS, START


def test_holds_end_where_they_end() -> None:
    history = samples.stale_write()
    found = View(history).holds.columns
    tokens = history.columns["token"][found.row].tolist()
    assert tokens == [39, 40, 41, 42, 43, 44]
    frozen = tokens.index(41)
    assert (found.ret[frozen], found.left[frozen]) == (START + 300 * MS, START + 1950 * MS)
    # The renewal at 620 ms counts from its invocation; a second of a server whose clock is 1 % fast, less its grain.
    assert found.expiry[frozen] == START + 620 * MS + int(1000 * MS / 1.01) - MS
    assert not found.open.any()


def test_a_hold_without_release_is_open_and_lasts_until_its_last_operation() -> None:
    held = {"owner": 5, "token": 1}
    history = from_rows(
        samples.facts(lease="none"),
        samples.rows_of(
            [
                samples.row(F.ACQUIRE, 10, 20, 0, sent=10, **held),
                samples.row(F.WRITE, 50, 55, 0, value=1, **held),
                samples.row(F.ACQUIRE, 100, 110, 1, sent=101, owner=6, token=2),
                samples.row(F.LOST, 120, 120, 1, owner=6, token=2),
            ]
        ),
    )
    found = View(history).holds.columns
    assert found.open.tolist() == [True, False]
    assert ((found.left - START) / MS).tolist() == [55, 120]
    assert found.expiry.tolist() == [INFINITY, INFINITY]


def test_they_are_made_once_a_history_by_all_who_look_at_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trial = samples.trial()
    made: list[History] = []

    class Counted(Holds):
        def __init__(self, view: View) -> None:
            made.append(view.history)
            super().__init__(view)

    monkeypatch.setattr("checkers.history.view.Holds", Counted)
    history = samples.stale_write()
    judgements = judge_all(check(history), history)
    assert any(judgement.violation for judgement in judgements)
    lane = LaneRecord(history, judgements)
    trial_page.render(replace(trial, lanes=(lane,)), tmp_path)
    short_story.stories(lane)
    assert len(made) == 1
    assert made[0] is history
