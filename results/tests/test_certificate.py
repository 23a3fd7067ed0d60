"""What a certificate says of two stages, how it is written, and that it cannot be changed without being noticed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from checkers.claims import Word
from checkers.exercise import CONTENDED, EXPIRED
from results.__main__ import main
from results.certificate import written
from results.certificate.certificate import Certificate, Verdict, certify, sentence
from results.certificate.issue import issue
from results.certificate.stages import BASELINE, CANDIDATE, STAGES
from results.files import BadFile
from results.reading import Contents
from results.record import Cell
from results.run import Run
from results.tests import samples
from results.tests.test_comparison import WORDS, lanes

UPGRADES = {"redis": ("7.0", "8.0")}


def cell(stage: str, word: Word, **given: object) -> Cell:
    made = Cell(
        "redis", "redis", "register", "unfenced", "redis/register/unfenced", "freeze-holder", "token-order", word, "so",
        counters={CONTENDED: 3}, trial=f"redis-freeze-holder-1-{stage}", seed=1, attempt=1, stage=stage,
    )  # fmt: skip
    return replace(made, **given)  # type: ignore[arg-type]


def of(*cells: Cell, problems: tuple[str, ...] = ()) -> Certificate:
    return certify(Contents(cells, (), problems), UPGRADES)


@pytest.mark.parametrize(("old", "new"), list(product(WORDS, WORDS)), ids=lambda word: word.name.lower())
def test_each_turn_of_a_word(old: Word, new: Word) -> None:
    made = of(cell(BASELINE, old), cell(CANDIDATE, new))
    broke = new is Word.VIOLATED and old is not Word.VIOLATED
    no_longer_promised = new is Word.NOT_CLAIMED_BROKEN and old is Word.UPHELD
    assert (made.verdict is Verdict.REGRESSION) == (broke or no_longer_promised)
    blind = (Word.UNKNOWN, Word.UNEXERCISED)
    silent = new is Word.HAZARD_NOT_SHOWN and not old.fails
    assert (made.verdict is Verdict.INCONCLUSIVE) == ((new in blind and old not in blind) or silent)
    assert bool(made.cleared) == (old is Word.VIOLATED and new is not Word.VIOLATED)


def test_what_the_old_version_broke_elsewhere_is_not_lost_by_the_upgrade() -> None:
    cells = [
        cell(BASELINE, Word.VIOLATED),
        cell(CANDIDATE, Word.UPHELD),
        cell(BASELINE, Word.UPHELD, fault="none"),
        cell(CANDIDATE, Word.VIOLATED, fault="none"),
    ]
    made = of(*cells)
    assert made.verdict is Verdict.NO_REGRESSION
    assert [change.fault for change in made.known] == ["none"]
    assert made.cleared == ()
    of_another = [replace(one, property="fenced-store") if one.fault == "none" else one for one in cells]
    assert sentence(of(*of_another)) == "REGRESSION: redis lost fenced-store under none"


def test_a_regression_outranks_every_doubt() -> None:
    doubtful = [cell(BASELINE, Word.UPHELD, lane="b"), cell(CANDIDATE, Word.UNKNOWN, lane="b")]
    assert sentence(of(*doubtful)).startswith("INCONCLUSIVE: token-order of b under freeze-holder came to no verdict")
    broken = [cell(BASELINE, Word.UPHELD), cell(CANDIDATE, Word.VIOLATED)]
    assert of(*doubtful, *broken).verdict is Verdict.REGRESSION


def test_what_was_cleared_is_counted_by_promise() -> None:
    cells = [
        cell(stage, Word.VIOLATED if stage == BASELINE else Word.UPHELD, fault=fault, property=name)
        for stage, fault, name in product(STAGES, ("none", "freeze-holder"), ("token-order", "fenced-store"))
    ]
    assert sentence(of(*cells)) == "NO REGRESSION FOUND (2 defects cleared)"


def test_three_times_slower_is_a_regression_and_the_same_is_none() -> None:
    kept = (cell(BASELINE, Word.UPHELD), cell(CANDIDATE, Word.UPHELD))

    def made(times: float) -> Certificate:
        both = zip(STAGES, (lanes(1.0), lanes(times)), strict=True)
        told = tuple(replace(lane, stage=stage) for stage, contents in both for lane in contents.lanes)
        return certify(Contents(kept, told, ()), UPGRADES)

    assert made(1.0).verdict is Verdict.NO_REGRESSION
    slow = made(3.0)
    assert slow.verdict is Verdict.REGRESSION
    assert "times what it was" in sentence(slow)


@pytest.mark.parametrize(
    ("bites", "doubt"),
    [
        ({CONTENDED: (0, 0)}, "no contended acquires in the baseline"),
        ({CONTENDED: (2, 0)}, "no contended acquires in the candidate"),
        ({CONTENDED: (2, 2), EXPIRED: (4, 0)}, "no leases that expired while held in the candidate"),
        ({CONTENDED: (2, 2), EXPIRED: (0, 0)}, ""),
    ],
    ids=["never", "not-on-the-new", "no-lease-expired", "has-no-leases"],
)
def test_a_part_that_did_not_bite_is_inconclusive(bites: dict[str, tuple[int, int]], doubt: str) -> None:
    cells = [
        cell(stage, Word.UPHELD, counters={name: numbers[place] for name, numbers in bites.items()})
        for place, stage in enumerate(STAGES)
    ]
    made = of(*cells)
    assert (made.verdict is Verdict.INCONCLUSIVE) == bool(doubt)
    assert doubt in "; ".join(made.doubts)


def test_counters_are_of_histories_not_of_the_properties_that_saw_them() -> None:
    cells = [
        cell(stage, Word.UPHELD, property=name, lane=lane, counters={CONTENDED: number})
        for stage, (name, number), lane in product(STAGES, (("token-order", 3), ("fifo", 5)), ("a", "b"))
    ]
    assert of(*cells).bites["redis"][CONTENDED] == {BASELINE: 10, CANDIDATE: 10}


def test_a_trial_that_came_to_no_verdict_is_a_doubt_and_nothing_at_all_is_one() -> None:
    kept = (cell(BASELINE, Word.UPHELD), cell(CANDIDATE, Word.UPHELD))
    assert of(*kept, problems=("trials/x: aborted: no",)).doubts == (
        "1 trial came to no verdict: trials/x: aborted: no",
    )
    assert of().verdict is Verdict.INCONCLUSIVE


def test_what_only_the_old_version_was_asked_is_a_doubt() -> None:
    made = of(cell(BASELINE, Word.UPHELD), cell(CANDIDATE, Word.UPHELD), cell(BASELINE, Word.UPHELD, lane="b"))
    assert made.doubts == ("1 judgement of the old version has none beside it",)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A lock that is the same on both."""
    run = Run.create(
        tmp_path,
        {"command": ["pytest", "suites/"], "stages": {BASELINE: {"redis": "7.0"}, CANDIDATE: {"redis": "8.0"}}},
    )
    for stage in STAGES:
        run.save_trial(samples.trial(f"redis-freeze-holder-7-{stage}", stage=stage, version="7.0", attempt=1))
    run.close({})
    return run


def test_it_is_written_and_verified(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    certificate, page = issue(run)
    assert certificate.verdict is Verdict.NO_REGRESSION
    told = json.loads((run.path / written.NAME).read_bytes())
    assert told["digest"] == written.digest(told)
    assert written.canonical(told) == (run.path / written.NAME).read_bytes()
    assert {name.split("/")[1] for name in told["evidence"]} == {f"redis-freeze-holder-7-{stage}" for stage in STAGES}
    assert sentence(certificate) in page.read_text()
    assert main(["verify", str(run.path / written.NAME)]) == 0
    assert main(["certificate", str(run.path)]) == 0
    assert f"certificate: {page}" in capsys.readouterr().out.replace("\n", "")


def test_times_with_intervals_are_verified_too(tmp_path: Path) -> None:
    about = {"command": [], "stages": {BASELINE: {"redis": "7.0"}, CANDIDATE: {"redis": "8.0"}}}
    run = Run.create(tmp_path, about)
    for stage, number in product(STAGES, range(8)):
        history = samples.stale_write(seed=number)
        run.save_trial(samples.trial(f"redis-freeze-holder-{number}-{stage}", history, stage=stage, attempt=1))
    run.close({})
    certificate, _ = issue(run)
    assert any(speed.interval for speed in certificate.comparison.speeds)
    assert main(["verify", str(run.path / written.NAME)]) == 0


def test_issued_again_or_elsewhere_it_is_the_same(run: Run, tmp_path: Path) -> None:
    issue(run)
    first = (run.path / written.NAME).read_bytes()
    elsewhere = tmp_path / "elsewhere" / run.path.name
    shutil.copytree(run.path, elsewhere)
    issue(Run.open(elsewhere))
    assert (elsewhere / written.NAME).read_bytes() == first


def test_what_was_changed_is_named(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    issue(run)
    file = run.path / written.NAME
    told = json.loads(file.read_bytes())
    file.write_bytes(written.canonical({**told, "sentence": "NO REGRESSION FOUND (9 defects cleared)"}))
    assert main(["verify", str(file)]) == 1
    said = capsys.readouterr().err
    assert "it was changed: its digest is another" in said
    assert "sentence is not what the run says" in said
    better = {**told, "sentence": "NO REGRESSION FOUND (9 defects cleared)"}
    file.write_bytes(written.canonical({**better, "digest": written.digest(better)}))
    assert main(["verify", str(file)]) == 1
    assert capsys.readouterr().err.count("\n") == 1

    issue(run)
    history = next((run.path / "trials").glob("*/*.arrow"))
    history.unlink()
    assert main(["verify", str(file)]) == 1
    assert f"{history.relative_to(run.path)} is missing" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 9}', '{"format": 1, "sentence": 1}', "[" * 100_000])
def test_what_is_no_certificate_is_named_in_a_line(run: Run, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = run.path / written.NAME
    file.write_text(text)
    assert main(["verify", str(file)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_a_run_that_was_cut_short_is_inconclusive(run: Run, how: str) -> None:
    if how == "killed":
        (run.path / "summary.json").unlink()
    else:
        run.close({"interrupted": True})
    certificate, _ = issue(run)
    assert certificate.verdict is Verdict.INCONCLUSIVE
    assert certificate.doubts[0].startswith("the run ")


def test_a_run_that_tried_no_upgrade_has_none(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no upgrade was tried"):
        issue(Run.create(tmp_path, {}))
