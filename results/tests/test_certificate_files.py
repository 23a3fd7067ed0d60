"""How a certificate is written, that it cannot be changed without being noticed, and what follows from it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from markupsafe import escape

from results.__main__ import main
from results.certificate import attestation, junit, written
from results.certificate.certificate import Verdict, sentence
from results.certificate.issue import issue
from results.certificate.stages import ALONE, BASELINE, CANDIDATE, COLUMNS, MIXED, STAGES
from results.certificate.verify import NOT_BORNE_OUT
from results.files import BadFile
from results.record import NotRun
from results.run import Run
from results.tests import samples
from results.tests.browser import hostile
from results.tests.browser.made import violated
from results.tests.upgrades import closed, judged, record
from results.tests.upgrades import run as made_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return closed(tmp_path)


def read(run: Run, name: str = written.NAME) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((run.path / name).read_bytes())
    return told


def test_it_is_written_and_verified(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    certificate, page = issue(run)
    assert certificate.verdict is Verdict.NO_REGRESSION, certificate.doubts
    told = read(run)
    assert told["digest"] == written.digest(told)
    assert written.canonical(told) == (run.path / written.NAME).read_bytes()
    trials = [name.split("/")[1] for name in told["evidence"] if name != "run.json"]
    assert set(trials) == {path.name for path in (run.path / "trials").iterdir()}
    assert sentence(certificate) in page.read_text()
    assert main(["verify", str(run.path / written.NAME)]) == 0
    assert main(["certificate", str(run.path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"certificate: {page}" in said
    assert "no way back from the end, redis: redis1 stays 8.0: it does not start on its data" in said


def test_times_with_intervals_are_verified_too(tmp_path: Path) -> None:
    about = {"command": [], "stages": {BASELINE: {"redis": "7.0"}, CANDIDATE: {"redis": "8.0"}}}
    run = Run.create(tmp_path, about)
    for stage, number in product(ALONE, range(8)):
        history = samples.stale_write(seed=number)
        trial = samples.trial(f"redis-freeze-holder-{number}-{stage}", history, stage=stage, attempt=1)
        run.save_trial(judged(trial))
    run.close({})
    certificate, _ = issue(run)
    assert any(speed.interval for speed in certificate.comparison.speeds)
    assert main(["verify", str(run.path / written.NAME)]) == 0


def test_issued_again_or_elsewhere_it_is_the_same(run: Run, tmp_path: Path) -> None:
    issue(run)
    names = (written.NAME, junit.NAME, attestation.NAME)
    first = [(run.path / name).read_bytes() for name in names]
    elsewhere = tmp_path / "elsewhere" / run.path.name
    shutil.copytree(run.path, elsewhere)
    issue(Run.open(elsewhere))
    assert [(elsewhere / name).read_bytes() for name in names] == first


def test_what_was_changed_is_named(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    issue(run)
    file, told = run.path / written.NAME, read(run)
    file.write_bytes(written.canonical({**told, "sentence": "NO REGRESSION FOUND (9 defects cleared)"}))
    assert main(["verify", str(file)]) == NOT_BORNE_OUT
    said = capsys.readouterr().err
    assert "it was changed: its digest is another" in said
    assert "sentence is not what the run says" in said
    better = {**told, "sentence": "NO REGRESSION FOUND (9 defects cleared)"}
    file.write_bytes(written.canonical({**better, "digest": written.digest(better)}))
    assert main(["verify", str(file)]) == NOT_BORNE_OUT
    assert capsys.readouterr().err.count("\n") == 2

    issue(run)
    history = next((run.path / "trials").glob("*/*.arrow"))
    history.unlink()
    assert main(["verify", str(file)]) == NOT_BORNE_OUT
    said = capsys.readouterr().err
    assert f"{history.relative_to(run.path)} is missing" in said
    assert not any(name in said for name in (junit.NAME, attestation.NAME))  # nobody touched them


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace('"upgrades":', '"sentence":"NO REGRESSION FOUND","upgrades":', 1), "not written as"),
        (lambda text: text.replace(",", ", ", 1), "not written as"),
        (lambda text: text.replace('"run":', '"room":null,"run":', 1), "room is not what the run says"),
    ],
    ids=["a-key-twice", "a-space", "a-key-of-nothing"],
)
def test_not_a_byte_may_be_another(
    run: Run, change: Callable[[str], str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    issue(run)
    file = run.path / written.NAME
    before = file.read_text()
    file.write_text(change(before))
    assert file.read_text() != before
    assert main(["verify", str(file)]) == NOT_BORNE_OUT
    assert said in capsys.readouterr().err


def test_another_format_is_for_the_version_that_wrote_it(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    issue(run)
    file = run.path / written.NAME
    file.write_bytes(written.canonical({**read(run), "format": written.FORMAT - 1}))
    assert main(["verify", str(file)]) == 2
    assert f"format {written.FORMAT - 1}, this version verifies {written.FORMAT}; make it" in capsys.readouterr().err


def test_a_history_that_no_trial_names_is_found(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    history = next((run.path / "trials").glob("*/*.arrow"))
    shutil.copy(history, history.with_name("more.arrow"))
    issue(run)
    assert main(["verify", str(run.path)]) == NOT_BORNE_OUT
    assert "verdicts.json has not the lanes of trial.json" in capsys.readouterr().err


def test_a_history_by_another_name_is_no_evidence(run: Run) -> None:
    history = next((run.path / "trials").glob("*/*.arrow"))
    history.rename(history.with_suffix(".dat"))
    for name in ("trial.json", "verdicts.json"):
        file = history.with_name(name)
        file.write_text(file.read_text().replace(history.name, f"{history.stem}.dat"))
    issue(run)
    assert main(["verify", str(run.path)]) == NOT_BORNE_OUT


def test_an_honest_doubt_is_verified(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    next((run.path / "trials").glob("*/*.arrow")).write_bytes(b"no history")
    issue(run)
    assert main(["verify", str(run.path)]) == 5
    assert capsys.readouterr().out.startswith("verified: INCONCLUSIVE: ")


@pytest.mark.parametrize("name", ["run.json", "summary.json"])
def test_evidence_that_is_gone_bears_nothing_out(run: Run, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    issue(run)
    (run.path / name).unlink()
    assert main(["verify", str(run.path)]) == NOT_BORNE_OUT
    assert "not borne out" in capsys.readouterr().err


def faster(lane: dict[str, Any]) -> None:
    lane["measures"]["release_ms"]["p50"] = 0.001


def bitten(lane: dict[str, Any]) -> None:
    lane["judgements"][0]["verdict"]["counters"]["contended acquires"] = 9


def held(lane: dict[str, Any]) -> None:
    del lane["judgements"][1]


def renamed(lane: dict[str, Any]) -> None:
    lane["lock"] = "etcd"


@pytest.mark.parametrize("forge", [faster, bitten, held, renamed])
def test_what_a_trial_says_of_its_histories_is_derived_again(
    run: Run, forge: Callable[[dict[str, Any]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    file = next((run.path / "trials").glob("*/verdicts.json"))
    told = json.loads(file.read_text())
    forge(told["lanes"][0])
    file.write_text(json.dumps(told))
    issue(run)
    assert main(["verify", str(run.path)]) == NOT_BORNE_OUT
    assert capsys.readouterr().err.count(f"{file.parent.name}  redis/register/unfenced  ") == 1


def test_no_lane_is_left_out(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    file = next((run.path / "trials").glob("*/verdicts.json"))
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "lanes": told["lanes"][1:]}))
    issue(run)
    assert main(["verify", str(run.path)]) == NOT_BORNE_OUT
    assert "verdicts.json has not the lanes of trial.json" in capsys.readouterr().err


def test_what_was_asked_for_and_what_was_not_tried_are_evidence(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.save_not_run([NotRun("redis", "redis", "clock-jump", "no clock")])
    issue(run)
    (file,) = (run.path / "not-run").iterdir()
    file.write_text(file.read_text().replace("no clock", "no time"))
    asked = run.path / "run.json"
    asked.write_text(asked.read_text().replace("7.0", "7.2"))
    assert main(["verify", str(run.path)]) == NOT_BORNE_OUT
    said = capsys.readouterr().err
    assert f"not-run/{file.name} was changed" in said
    assert "run.json was changed" in said


def test_a_folder_of_another_name_is_verified(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    issue(run)
    copy = shutil.copytree(run.path, tmp_path / "evidence")
    assert main(["verify", str(copy)]) == 0
    said, wrong = capsys.readouterr()
    assert f"its run was {run.path.name}, and is in a folder of another name now: evidence\n" in said
    assert not wrong


def test_what_is_replaced_is_told(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    issue(run)
    assert main(["certificate", str(run.path)]) == 0
    assert "takes the place" not in capsys.readouterr().out
    file = run.path / written.NAME
    file.write_bytes(written.canonical({**read(run), "sentence": "REGRESSION: so it was"}))
    assert main(["certificate", str(run.path)]) == 0
    assert capsys.readouterr().out.endswith("it takes the place of another, which said: REGRESSION: so it was\n")


def test_wherever_the_run_is_told_of_its_certificate_comes_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate, _ = issue(run := lost(tmp_path))
    told = sentence(certificate)
    assert told.startswith("REGRESSION: ")
    for page in (run.path / "index.html", tmp_path / "index.html"):
        heading = page.read_text().partition('<h1 id="verdict">')[2].partition("</h1>")[0]
        assert escape(told) in heading
    for command in ("list", "show", "digest"):
        capsys.readouterr()
        assert main(["--results", str(tmp_path), command, *([] if command == "list" else [run.path.name])]) == 0
        first = capsys.readouterr().out.partition("\n")[0]
        assert "REGRESSION: redis lost " in unescape(first)


@pytest.mark.parametrize("name", [junit.NAME, attestation.NAME])
def test_what_follows_from_it_is_verified(run: Run, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    issue(run)
    file = run.path / name
    file.write_bytes(file.read_bytes().replace(b"token-order", b"fenced-store"))
    assert main(["verify", str(run.path / written.NAME)]) == NOT_BORNE_OUT
    assert f"{name} is not what the certificate says" in capsys.readouterr().err
    file.unlink()
    assert main(["verify", str(run.path / written.NAME)]) == NOT_BORNE_OUT
    assert f"{name}: No such file or directory" in capsys.readouterr().err


def test_what_a_trial_says_of_its_servers_is_covered(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    issue(run)
    (file,) = (run.path / "trials").glob("*rollback-end*/trial.json")
    file.write_text(file.read_text().replace('"refused": true', '"refused": false'))
    assert main(["verify", str(run.path / written.NAME)]) == NOT_BORNE_OUT
    assert "no_way_back, steps are not what the run says" in capsys.readouterr().err


def test_a_judgement_whose_history_is_damaged_is_a_doubt(run: Run) -> None:
    history = next((run.path / "trials").glob("*/*.arrow"))
    history.write_bytes(b"no history")
    certificate, _ = issue(run)
    assert certificate.verdict is Verdict.INCONCLUSIVE
    assert certificate.doubts[-1].startswith("1 trial came to no verdict: trials/")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 9}', '{"format": 3, "sentence": 1}', '{"format": 3, "run": NaN}', "[" * 100_000],
)
def test_what_is_no_certificate_is_named_in_a_line(run: Run, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = run.path / written.NAME
    file.write_text(text)
    assert main(["verify", str(file)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("about", "doubt"),
    [
        (None, "the run did not come to its end"),
        ({"interrupted": True, "exit status": 2}, "the run was interrupted"),
        ({"exit status": 4}, "the run did not come to its end"),
        ({"exit status": 0, "missing shards": ["2/3"]}, "shards are missing: 2/3"),
    ],
    ids=["killed", "interrupted", "no-environment", "a-shard"],
)
def test_a_run_that_was_cut_short_is_inconclusive(run: Run, about: dict[str, Any] | None, doubt: str) -> None:
    if about is None:
        (run.path / "summary.json").unlink()
    else:
        run.close(about)
    certificate, _ = issue(run)
    assert certificate.verdict is Verdict.INCONCLUSIVE
    assert certificate.doubts[0] == doubt


def test_a_run_that_tried_no_upgrade_has_none(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no upgrade was tried"):
        issue(Run.create(tmp_path, {}))


def test_a_run_from_before_there_were_rolling_upgrades_has_its_certificate(tmp_path: Path) -> None:
    run = closed(tmp_path, parts=None)
    certificate, _ = issue(run)
    assert certificate.verdict is Verdict.NO_REGRESSION
    assert certificate.parts == ALONE
    assert main(["verify", str(run.path / written.NAME)]) == 0


def lost(root: Path, stage: str = MIXED) -> Run:
    """A run in which promises were lost while versions changed."""
    run = made_run(root)
    run.save_trial(violated(record(stage, COLUMNS[stage][0], seed=8)))
    run.close({})
    return run


def test_junit_tells_a_regression_as_failures(tmp_path: Path) -> None:
    certificate, _ = issue(run := lost(tmp_path))
    assert sentence(certificate).startswith("REGRESSION: redis lost ")
    suite = ElementTree.fromstring((run.path / junit.NAME).read_bytes())[0]
    failed = [case for case in suite.iter("testcase") if case.find("failure") is not None]
    assert {case.get("name") for case in failed} == {f"{one.property} [mixed]" for one in certificate.regressed}
    assert suite.get("failures") == str(len(failed))
    assert suite.get("errors") == "0"
    assert int(suite.get("tests", "")) == len(list(suite.iter("testcase"))) > len(failed)


def test_junit_tells_doubts_as_errors_and_what_could_not_be_as_skipped(tmp_path: Path) -> None:
    run = made_run(tmp_path, parts=ALONE)
    run.close({"interrupted": True})
    issue(run)
    suite = ElementTree.fromstring((run.path / junit.NAME).read_bytes())[0]
    (error,) = suite.iter("error")
    assert error.get("message") == "the run was interrupted"
    assert {one.get("message") for one in suite.iter("skipped")} <= {"too few trials to tell"}


def test_the_attestation_names_the_images_by_their_digests(run: Run) -> None:
    issue(run)
    told = read(run, attestation.NAME)
    assert told["_type"] == "https://in-toto.io/Statement/v1"
    assert told["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert told["subject"] == [
        {
            "name": f"fencepost/redis:{suite}",
            "digest": {"sha256": digit * 64},
            "annotations": {"backend": "redis", "stage": stage, "version": version},
        }
        for suite, digit, stage, version in (
            ("bookworm", "1", BASELINE, "7.0.15"),
            ("trixie", "2", CANDIDATE, "8.0.2"),
        )
    ]
    predicate = told["predicate"]
    assert predicate["result"] == "PASSED"
    certificate, *plans = predicate["configuration"]
    assert certificate["name"] == written.NAME
    assert {one["name"] for one in plans} == {name for name in read(run)["evidence"] if name.endswith("/plan.json")}
    assert "redis.redis: token-order [mixed]" in predicate["passedTests"]
    assert predicate["failedTests"] == []
    # What is broken by the lock's own account passed; what the old version broke already is no news.
    assert "redis.redis: holder-exclusion [mixed]" in predicate["passedTests"]
    assert predicate["warnedTests"] == []


def test_what_failed_before_is_neither_passed_nor_failed(tmp_path: Path) -> None:
    run = made_run(tmp_path, parts=[])
    for stage in ALONE:
        run.save_trial(violated(record(stage, "freeze-holder")))
    run.close({})
    certificate, _ = issue(run)
    assert not certificate.regressed
    predicate = read(run, attestation.NAME)["predicate"]
    assert {f"redis.redis: holder-exclusion [{stage}]" for stage in ALONE} <= set(predicate["warnedTests"])
    assert not set(predicate["warnedTests"]) & set(predicate["passedTests"])
    suite = ElementTree.fromstring((run.path / junit.NAME).read_bytes())[0]
    assert suite.get("failures") == "0"
    assert any(str(one.get("message")).startswith("violated: ") for one in suite.iter("skipped"))


def test_the_attestation_tells_a_regression_and_a_doubt(tmp_path: Path) -> None:
    issue(worse := lost(tmp_path / "worse"))
    predicate = read(worse, attestation.NAME)["predicate"]
    assert predicate["result"] == "FAILED"
    assert all(name.endswith("[mixed]") for name in predicate["failedTests"])
    doubtful = made_run(tmp_path / "doubtful")
    doubtful.close({"interrupted": True})
    issue(doubtful)
    assert read(doubtful, attestation.NAME)["predicate"]["result"] == "WARNED"


def test_without_an_image_the_certificate_is_the_subject(tmp_path: Path) -> None:
    run = made_run(tmp_path, parts=[])
    for stage in ALONE:
        run.save_trial(record(stage, "freeze-holder", nodes={}))
    run.close({})
    issue(run)
    (subject,) = read(run, attestation.NAME)["subject"]
    assert subject["name"] == written.NAME


@pytest.mark.parametrize("rolled", ["x", [5], [{"at": "1", "what": "x", "refused": False}], [{"at": 1.0}]])
def test_a_trial_with_damaged_steps_is_a_doubt(run: Run, rolled: object) -> None:
    (file,) = (run.path / "trials").glob("*rollback-end*/trial.json")
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "about": {**told["about"], "rolled": rolled}}))
    certificate, _ = issue(run)
    (doubt,) = certificate.doubts[-1:]
    assert doubt.startswith("1 trial came to no verdict: trials/redis-rollback-end-7-rollback/trial.json: damaged (")


@pytest.mark.parametrize("command", [5, "pytest", {"x": []}, None])
def test_a_command_that_is_none_is_left_out(tmp_path: Path, command: object) -> None:
    _, page = issue(closed(tmp_path, parts=ALONE, command=command))
    assert ">again<" not in page.read_text()


def test_whatever_was_recorded_gives_files_that_can_be_read(tmp_path: Path) -> None:
    stages = {BASELINE: {"redis": "7.0"}, CANDIDATE: {"redis": hostile.attack("version")}}
    run = Run.create(tmp_path, {"command": ["pytest", hostile.attack("command")], "stages": stages, "parts": STAGES})
    for stage in STAGES:
        steps = [{"at": 1.0, "what": hostile.attack("rolled"), "refused": True}]
        one = hostile.trial()
        about = {**one.about, "stage": stage, "rolled": steps, "column": COLUMNS.get(stage, ("x",))[0]}
        run.save_trial(type(one)(f"hostile-{stage}", about, one.lanes, {}))
    run.close({})
    issue(run)
    assert ElementTree.fromstring((run.path / junit.NAME).read_bytes()).find("testsuite") is not None
    assert read(run, attestation.NAME)["predicate"]["result"]
    assert main(["verify", str(run.path / written.NAME)]) == NOT_BORNE_OUT  # no history says so


def test_what_is_no_trial_is_a_doubt_and_no_end(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    (run.path / "trials" / "notes.txt").write_text("mine")
    assert main(["certificate", str(run.path)]) == 5
    assert "notes.txt" in capsys.readouterr().out


@pytest.mark.parametrize("damaged", ["x", [5], {"at": "now"}])
def test_damaged_interruptions_are_named(tmp_path: Path, damaged: object, capsys: pytest.CaptureFixture[str]) -> None:
    run = closed(tmp_path, interruptions=damaged)
    assert main(["certificate", str(run.path)]) == 2
    assert "run.json: damaged (Expected" in capsys.readouterr().err
