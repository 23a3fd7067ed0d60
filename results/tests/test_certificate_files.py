"""How a certificate is written, that no change of it goes unnoticed, and the files that are derived from it."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from markupsafe import escape

from checkers.claims import Verdict
from checkers.properties.shared_counters import CONTENDED
from checkers.tests.build import cases
from results.certificate import certificate_files
from results.certificate.certificate_files import issue
from results.certificate.certify import Decision, sentence
from results.commands.certificate import NOT_BORNE_OUT
from results.record import LaneRecord, NotRun, TrialRecord
from results.run import Run
from results.stages import ALONE, BASELINE, CALIBRATION, COLUMNS, MIXED
from results.storage import files
from results.tests import hostile, samples
from results.tests.browser.made import violated
from results.tests.conftest import Results
from results.tests.markup import Page, golden
from results.tests.upgrades import closed, judged, record
from results.tests.upgrades import run as made_run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return closed(tmp_path_factory.mktemp("made")).path


@pytest.fixture(scope="module")
def certified(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = shutil.copytree(made, tmp_path_factory.mktemp("issued") / made.name)
    issue(Run.open(path))
    return path


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Run:
    return Run.open(shutil.copytree(made, tmp_path / made.name))


@pytest.fixture
def issued(certified: Path, tmp_path: Path) -> Run:
    return Run.open(shutil.copytree(certified, tmp_path / certified.name))


def read(run: Run, name: str = files.CERTIFICATE) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((run.path / name).read_bytes())
    return told


def history(run: Run) -> Path:
    return next((run.path / "trials").glob("*/*.arrow"))


def edit(file: Path, old: str, new: str, count: int = -1) -> None:
    before = file.read_text()
    file.write_text(before.replace(old, new, count))
    assert file.read_text() != before


def test_a_certificate_is_written_and_verified(run: Run, results: Results) -> None:
    certificate, page = issue(run)
    assert certificate.decision is Decision.NO_REGRESSION, certificate.doubts
    told = read(run)
    made = (certificate_files.digest(told), (run.path / files.CERTIFICATE).read_bytes())
    assert (told["digest"], certificate_files.canonical(told)) == made
    trials = [name.split("/")[1] for name in told["evidence"] if name != "run.json"]
    assert set(trials) == {path.name for path in (run.path / "trials").iterdir()}
    assert sentence(certificate) in page.read_text()
    for words in ([run.path / files.CERTIFICATE], ["last"]):
        assert results("--results", run.path.parent, "verify", *words)[0] == 0
    status, out, _ = results("certificate", run.path)
    assert status == 0
    said = " ".join(out.split())
    assert f"certificate: {page}" in said
    assert "no way back from the end, redis: redis1 stays 8.0: it does not start on its data" in said


def test_times_with_intervals_are_verified_too(tmp_path: Path, results: Results) -> None:
    trials = (
        judged(samples.trial(f"redis-{number}-{stage}", samples.stale_write(seed=number), stage=stage, attempt=1))
        for stage, number in product(ALONE, range(8))
    )
    certificate, _ = issue(run := closed(tmp_path, *trials, parts=[]))
    assert any(speed.interval for speed in certificate.comparison.speeds)
    assert results("verify", run.path)[0] == 0


def test_a_copied_run_gets_the_same_certificate_and_is_verified(issued: Run, tmp_path: Path, results: Results) -> None:
    elsewhere = shutil.copytree(issued.path, tmp_path / "elsewhere" / issued.path.name)
    issue(Run.open(elsewhere))
    for name in (files.CERTIFICATE, files.JUNIT, files.ATTESTATION):
        assert (elsewhere / name).read_bytes() == (issued.path / name).read_bytes()
    status, said, wrong = results("verify", elsewhere.rename(tmp_path / "evidence"))
    assert (status, wrong) == (0, "")
    assert f"its run was {issued.path.name}, and is in a folder of another name now: evidence\n" in said


def better(run: Run, **changed: object) -> None:
    """Change the sentence of a certificate, and the keys in `changed`. The digest stays, unless it is one of these."""
    told = {**read(run), "sentence": "NO REGRESSION FOUND (9 defects cleared)", **changed}
    (run.path / files.CERTIFICATE).write_bytes(certificate_files.canonical(told))


def without(name: str) -> Callable[[Run], None]:
    return lambda run: (run.path / name).unlink()


def within(name: str, old: str, new: str, count: int = -1) -> Callable[[Run], None]:
    return lambda run: edit(next(run.path.glob(name)), old, new, count)


def newly_signed(run: Run) -> None:
    better(run)
    better(run, digest=certificate_files.digest(read(run)))


ROLLED_BACK = "trials/*rollback-end*/trial.json"


@cases(
    "change, said",
    ("sentence", better, "it was changed: its digest is another"),
    ("sentence-and-digest", newly_signed, "sentence is not what the run says"),
    ("a-key-twice", within(files.CERTIFICATE, '"upgrades":', '"sentence":"FINE","upgrades":', 1), "not written as"),
    ("a-space", within(files.CERTIFICATE, ",", ", ", 1), "not written as"),
    ("a-key-of-nothing", within(files.CERTIFICATE, '"run":', '"room":null,"run":', 1), "room is not what the run says"),
    ("history-missing", lambda run: history(run).unlink(), ".arrow is missing"),
    ("no-run", without("run.json"), "not borne out"),
    ("no-summary", without("summary.json"), "not borne out"),
    ("asked-for", within("run.json", "7.0", "7.2"), "run.json was changed"),
    ("junit", within(files.JUNIT, "token-order", "fenced-store"), f"{files.JUNIT} is not what the"),
    ("no-junit", without(files.JUNIT), f"{files.JUNIT}: No such file or directory"),
    ("attestation", within(files.ATTESTATION, "token-order", "x"), f"{files.ATTESTATION} is not what the"),
    ("no-attestation", without(files.ATTESTATION), f"{files.ATTESTATION}: No such file or directory"),
    ("servers", within(ROLLED_BACK, '"refused": true', '"refused": false'), "no_way_back, steps are not what the run"),
)
def test_verify_names_the_changed_part(issued: Run, change: Callable[[Run], None], said: str, results: Results) -> None:
    change(issued)
    place = issued.path / files.CERTIFICATE if (issued.path / "run.json").exists() else issued.path
    status, _, errors = results("verify", place)
    assert status == NOT_BORNE_OUT
    assert said in errors
    assert not any(name in errors for name in (files.JUNIT, files.ATTESTATION) if not said.startswith(name))


def test_the_shape_stands_beside_the_versions(tmp_path: Path) -> None:
    made = closed(tmp_path / "run", shapes={"redis": "five"}, budget=7.5)
    text = Page(issue(made)[1].read_text()).text
    assert all(words in text for words in ("redis (shape five) from 7.0", "budget 7.5 min for each backend"))
    assert "shape of redis five" in Page((made.path / "index.html").read_text()).text


def test_a_certificate_of_another_format_is_refused(issued: Run, results: Results) -> None:
    better(issued, format=certificate_files.FORMAT - 1)
    status, _, errors = results("verify", issued.path / files.CERTIFICATE)
    assert status == 2
    assert f"format {certificate_files.FORMAT - 1}, this version verifies {certificate_files.FORMAT}; make it" in errors


def by_another_name(run: Run) -> None:
    file = history(run)
    file.rename(file.with_suffix(".dat"))
    for name in ("trial.json", "verdicts.json"):
        edit(file.with_name(name), file.name, f"{file.stem}.dat")


def lanes(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Run], None]:
    """A forgery that changes the lanes in the verdicts.json of a trial."""

    def forge(run: Run) -> None:
        file = history(run).with_name("verdicts.json")
        told = json.loads(file.read_text())
        change(told["lanes"])
        file.write_text(json.dumps(told))

    return forge


Forgery = Callable[[Run], object]
LANE, LANES = "  redis/register/unfenced  ", "has not the lanes of trial.json"


@cases(
    "forge, said",
    ("history-of-no-trial", lambda run: shutil.copy(history(run), history(run).with_name("more.arrow")), LANES),
    ("other-name", by_another_name, ""),
    ("faster", lanes(lambda told: told[0]["measures"]["release_ms"].update(p50=0.001)), LANE),
    ("exposed", lanes(lambda told: told[0]["judgements"][0]["verdict"]["counters"].update({CONTENDED: 9})), LANE),
    ("held", lanes(lambda told: told[0]["judgements"].pop(1)), LANE),
    ("renamed", lanes(lambda told: told[0].update(lock="etcd")), LANE),
    ("lane-left-out", lanes(lambda told: told.pop(0)), f"verdicts.json {LANES}"),
)
def test_forged_claims_of_a_trial_are_found(run: Run, forge: Forgery, said: str, results: Results) -> None:
    forge(run)
    issue(run)
    status, _, errors = results("verify", run.path)
    assert status == NOT_BORNE_OUT
    assert errors.count(said) == 1 or not said


def test_an_honest_doubt_is_verified(run: Run, results: Results) -> None:
    history(run).write_bytes(b"no history")
    (run.path / "trials" / "notes.txt").write_text("no trial")
    certificate, _ = issue(run)
    assert re.match("2 trials came to no verdict: trials/.*notes.txt", certificate.doubts[-1])
    status, out, _ = results("verify", run.path)
    assert (status, out.partition(": ")[2][:14]) == (5, "INCONCLUSIVE: ")


def test_a_change_to_the_list_of_untried_cells_is_found(run: Run, results: Results) -> None:
    run.save_not_run([NotRun("redis", "redis", "clock-jump", "no clock")])
    issue(run)
    (file,) = (run.path / "not-run").iterdir()
    edit(file, "no clock", "no time")
    assert f"not-run/{file.name} was changed" in results("verify", run.path)[2]


def test_the_command_prints_the_sentence_of_the_replaced_certificate(issued: Run, results: Results) -> None:
    for words in ("", "it takes the place of another, which said: REGRESSION: so it was\n"):
        status, out, _ = results("certificate", issued.path)
        assert (status, out.endswith(words), "takes the place" in out) == (0, True, bool(words))
        better(issued, sentence="REGRESSION: so it was")


def test_pages_and_commands_begin_with_the_certificate(tmp_path: Path, results: Results) -> None:
    certificate, _ = issue(run := lost(tmp_path))
    told = sentence(certificate)
    assert told.startswith("REGRESSION: ")
    for page in (run.path / "index.html", tmp_path / "index.html"):
        assert escape(told) in page.read_text().partition('<h1 id="verdict">')[2].partition("</h1>")[0]
    for words in (["list"], ["show", run.path.name], ["digest", run.path.name]):
        status, out, _ = results("--results", tmp_path, *words)
        assert (status, "REGRESSION: redis lost " in unescape(out.partition("\n")[0])) == (0, True)
        assert ("in all trials, of every version: " in out) == (words[0] == "show")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 9}', '{"format": 3, "sentence": 1}', '{"format": 3, "run": NaN}', "[" * 100_000],
)
def test_a_file_that_is_no_certificate_gives_one_line_of_error(run: Run, text: str, results: Results) -> None:
    file = run.path / files.CERTIFICATE
    file.write_text(text)
    status, _, errors = results("verify", file)
    assert (status, errors.count("\n")) == (2, 1)


@cases(
    "about, doubt",
    ("no end", {}, "the run did not come to its end"),
    ("interrupted", {"interrupted": True, "exit status": 2}, "the run was interrupted"),
    ("no environment", {"exit status": 4}, "the run did not come to its end"),
    ("a shard", {"exit status": 0, "missing shards": ["2/3"]}, "shards are missing: 2/3"),
)
def test_a_run_that_was_cut_short_is_inconclusive(run: Run, about: dict[str, Any], doubt: str) -> None:
    (run.path / "summary.json").unlink()
    if about:
        run.close(about)
    certificate, _ = issue(run)
    assert (certificate.decision, certificate.doubts[0]) == (Decision.INCONCLUSIVE, doubt)


def test_only_a_run_of_an_upgrade_gets_a_certificate_even_without_stored_parts(tmp_path: Path) -> None:
    with pytest.raises(files.BadFile, match="no upgrade was tried"):
        issue(Run.create(tmp_path, {}))
    certificate, _ = issue(closed(tmp_path, parts=None))
    assert (certificate.decision, certificate.parts) == (Decision.NO_REGRESSION, ALONE)


def lost(root: Path) -> Run:
    return closed(root, violated(record(MIXED, COLUMNS[MIXED][0], seed=8)))


def interrupted(root: Path) -> Run:
    run = made_run(root, parts=ALONE)
    absent = (("a", "slow-disk", "no disk"), ("a", "x", "no clock"), ("b", "y", "no clock"))
    run.save_not_run([NotRun(lock, "redis", fault, because) for lock, fault, because in absent])
    run.close({"interrupted": True})
    return run


def broken_before(root: Path) -> Run:
    """The new version breaks what the old version broke already, and the images are not known."""
    return closed(root, *(violated(record(stage, "freeze-holder", nodes={})) for stage in ALONE), parts=[], suite="")


def planted(root: Path) -> Run:
    """A run with an anti-pattern and two planted bugs. The property that must name a bug caught one of the two."""
    broken = record(BASELINE, "none", locks={"redis": "suites.locks.antipatterns.get_then_del:GetThenDel"})
    one = samples.trial("redis-planted-freeze-holder-1-calibration", stage=CALIBRATION)
    breaks = lane_with(one, Verdict.VIOLATED, lane="a", lock="suites.locks.mutants:ForgetsItself")
    holds = lane_with(one, Verdict.UPHELD, lane="b", lock="mutant:forgets-others")
    named = {lane.history.facts.lane: lane.judgements[0].property for lane in (breaks, holds)}
    calibration = replace(one, about={**one.about, "planted": named}, lanes=(breaks, holds))
    return closed(root, broken, calibration, parts=ALONE)


def lane_with(record: TrialRecord, word: Verdict, **facts: str) -> LaneRecord:
    lane = record.lanes[0]
    history = replace(lane.history, facts=replace(lane.history.facts, **facts))  # type: ignore[arg-type]
    return LaneRecord(history, (replace(lane.judgements[0], word=word),))


@pytest.mark.parametrize("made", [closed, lost, interrupted, broken_before, planted])
def test_the_page_junit_and_the_attestation_match_the_golden_text(tmp_path: Path, made: Callable[[Path], Run]) -> None:
    _, page = issue(run := made(tmp_path))
    suite = ElementTree.fromstring((run.path / files.JUNIT).read_bytes())[0]
    lines = [f"{name}: {suite.get(name)}" for name in ("tests", "failures", "errors", "skipped")]
    outcomes = [(case.get("name"), each) for case in suite.iter("testcase") for each in case]
    bad = [(name, each) for name, each in outcomes if each.tag in ("failure", "error", "skipped")]
    lines += [f"{name}: {each.tag}: {each.get('message')}" for name, each in bad]
    told = read(run, files.ATTESTATION)
    plans = [name for name in sorted(read(run)["evidence"]) if name.endswith("/plan.json")]
    assert [one["name"] for one in told["predicate"]["configuration"]] == [files.CERTIFICATE, *plans]
    attested = json.dumps({**told, "predicate": {**told["predicate"], "configuration": "..."}}, indent=1)
    text = "\n".join([*lines, attested, Page(page.read_text()).lines])
    # Digests of files differ from run to run. Digests of images consist of one digit, and stay.
    text = re.sub(r"(?!(.)\1{63})[0-9a-f]{64}", "DIGEST", text)
    text = text.replace(str(tmp_path), "ROOT").replace(run.path.name, "RUN")
    assert text == golden(f"certificate-{made.__name__}.txt", text)


@pytest.mark.parametrize("rolled", ["x", [{"at": "1", "what": "x", "refused": False}], [{"at": 1.0}]])
def test_a_trial_with_damaged_steps_is_a_doubt(run: Run, rolled: object) -> None:
    (file,) = run.path.glob(ROLLED_BACK)
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "about": {**told["about"], "rolled": rolled}}))
    doubt = issue(run)[0].doubts[-1]
    assert doubt.startswith("1 trial came to no verdict: trials/redis-rollback-end-7-rollback/trial.json: damaged (")


@pytest.mark.parametrize(("command", "interruptions"), [(5, [5]), ("pytest", {"at": "now"})])
def test_run_json_may_be_damaged(tmp_path: Path, command: object, interruptions: object, results: Results) -> None:
    _, page = issue(closed(tmp_path, parts=ALONE, command=command))
    assert ">again<" not in page.read_text()
    status, _, errors = results("certificate", closed(tmp_path, parts=ALONE, interruptions=interruptions).path)
    assert (status, "run.json: damaged (" in errors) == (2, True)


def test_hostile_strings_give_files_that_can_be_parsed(tmp_path: Path, results: Results) -> None:
    issue(run := hostile.upgrade(tmp_path))
    assert ElementTree.fromstring((run.path / files.JUNIT).read_bytes()).find("testsuite") is not None
    assert read(run, files.ATTESTATION)["predicate"]["result"]
    assert results("verify", run.path)[0] == NOT_BORNE_OUT  # the histories do not support it
