"""Stored runs are judged today as they were: no word, kind or row of a verdict may change unless that is meant."""

from pathlib import Path

import pytest

from checkers.history.history import load
from results.tests.judged import FOLDER, judged, kept


@pytest.mark.parametrize("run", ["default", "nightly", "upgrade"])
def test_a_stored_run_is_judged_as_it_was(run: str, tmp_path: Path) -> None:
    answers = kept(FOLDER / f"{run}.tar.xz", tmp_path)
    assert len(answers) > 50
    different = [
        f"{file} {name}: was {was.get(name)}, is {now.get(name)}"
        for file, was in answers.items()
        for now in [judged(load(tmp_path / file))]
        for name in {**was, **now}
        if was.get(name) != now.get(name)
    ]
    assert different == []
