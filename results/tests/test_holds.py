"""Holds are made once a history, whoever looks at it."""

from dataclasses import replace
from pathlib import Path

import pytest

from checkers.check import check
from checkers.history.history import History
from checkers.history.holds_and_leases import Holds
from checkers.history.view import View
from checkers.judging.judgement import judge_all
from results.pages import trial_page
from results.record import LaneRecord
from results.report import short_story
from results.tests import samples


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
