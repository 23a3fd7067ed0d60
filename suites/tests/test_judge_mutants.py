"""Bugs planted in the recorder and the checkers show on stored histories, and where there is none nothing does."""

from pathlib import Path

import pytest

from checkers.history.history import load
from results.tests.judged import FOLDER, judged, kept
from suites.mutants.altered import AlteredModules
from suites.mutants.catalogue import Mutant, on_stored_histories
from suites.tests.judge_mutants import NOTHING, Histories, Shown
from suites.tests.replayed import replayed
from suites.worker import recorder


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Histories:
    return Histories(["default"], tmp_path_factory.mktemp("stored"))


@pytest.mark.parametrize("mutant", on_stored_histories().values(), ids=lambda mutant: mutant.name)
def test_what_it_changes_stands_there(mutant: Mutant) -> None:
    modules = AlteredModules(mutant)
    assert all(modules.source(change.module) for change in mutant.changes)
    assert not mutant.fault
    assert mutant.found_by
    assert set(mutant.found_by) <= {"judged", "proof"}
    assert mutant.bug.endswith(".")
    assert mutant.why.endswith(".")


@pytest.mark.parametrize(
    "name",
    [
        "granted-before-the-answer",
        "refusal-recorded-as-no-answer",
        "unanswered-release-read-as-refused",
        "search-gives-up-and-says-valid",
    ],
)
def test_it_shows(name: str, histories: Histories) -> None:
    shown = histories.show(on_stored_histories()[name])
    assert not shown.missed
    assert str(shown).startswith(f"{name}: {shown.mutant.found_by[0]} (default/")


def test_what_does_not_show_is_told() -> None:
    mutant = on_stored_histories()["drift-added"]
    assert str(Shown(mutant, {})) == "drift-added: MISSED by judged; MISSED by proof"
    assert str(Shown(mutant, {"proof": "7 lease: no"})) == "drift-added: proof (7 lease: no); MISSED by judged"


def test_recorded_anew_without_a_bug_it_is_judged_as_it_was(tmp_path: Path) -> None:
    answers = kept(FOLDER / "nightly.tar.xz", tmp_path)
    for name, was in list(answers.items())[::20]:
        history = load(tmp_path / name)
        with recorder.folder() as folder:
            again = replayed(history, AlteredModules(NOTHING), Path(folder))
        assert judged(again) == was
        assert (again.columns["owner"] == history.columns["owner"]).all()
