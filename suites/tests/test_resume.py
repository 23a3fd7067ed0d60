"""A run that was interrupted goes on where it was: what is stored whole is not run again, everything else is."""

import contextlib
import json
import os
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from checkers.claims import Verdict
from checkers.tests.build import cases
from infra.docker import base, images
from results.certificate.certificate_files import issue
from results.certificate.certify import Decision
from results.commands import listing
from results.record import TrialRecord
from results.run import Run
from results.storage.files import RUNS, BadFile
from results.storage.resumable import ASIDE, ENDED, reopen, why_not
from results.storage.run_folder import is_running
from results.terminal.event_journal import Tail
from results.text import typed
from suites.selection.bad_option import BadOption
from suites.selection.selection import Selection
from suites.tests import selections
from suites.tests.selections import USAGE, asked, collected, upgrading
from suites.tests.world import World, askable, breaks, case_of, every_case, key_of, shown_by, with_redlock
from suites.trial import resume
from suites.trial.metadata import about
from suites.trial.resume import examine, go_on, interrupted, stored_in, take_options
from suites.trial.run_trials import CONTROLS, TrialSession
from suites.worker.pool import ROOT, TrialBroke, WorkerBroke

BEGUN = {"command": ["pytest", "suites/"]}


@pytest.fixture
def begun(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A run of `fences` that can be interrupted: `die` frees its lock, as the death of its process does."""
    monkeypatch.setattr(resume, "other_images", lambda *_: "")
    about = {"command": ["pytest", "suites/", "--lock", "redis"], "plans": [], "stages": {}}
    world.run = Run.create(world.run.path.parent / "more", about)
    yield world
    die(world.run)


def die(run: Run) -> None:
    if run.going_on is not None:
        run.going_on.close()


def again(world: World, asked: Selection) -> TrialSession:
    """The session of a new process that goes on with the run."""
    die(world.run)
    world.trials.clear()
    world.run, event = go_on(asked, Run.open(world.run.path))
    world.told = [event]
    return TrialSession(asked, world.run, world.told.append, partial(stored_in, world.run))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class TestWhatIsStored:
    def test_stored_trials_are_read_from_the_folder_and_the_rest_is_run(self, begun: World, fences: Selection) -> None:
        cases = list(every_case(fences, "none"))
        begun.script = lambda _: {key_of(cases[0]): Verdict.VIOLATED}
        before = list(map(begun.session(fences).answer, cases))
        session = again(begun, fences)
        after = [session.answer(case) for case in cases]
        assert (begun.trials, begun.environments[1:]) == ([], []), "nothing is booted for it"
        assert after == before
        assert [event.name for event in begun.told] == ["resumed", "verdict"], "what fails is told again"
        assert begun.told[0].facts == {"kept": (("redis", "none", 1, 4.0),), "stored": 1, "again": 0}
        session.answer(case_of(fences, "server-exclusion", "freeze-holder"))
        assert [trial.column for trial in begun.trials] == ["freeze-holder"]
        assert names(begun.run.path / "trials") == ["redis-freeze-holder-7", "redis-none-7"]
        assert begun.run.read().problems == ()

    @pytest.mark.parametrize("fires", [2, 3, None])
    def test_a_control_goes_on_with_the_next_seed(self, begun: World, fences: Selection, fires: int | None) -> None:
        case = case_of(fences, "holder-exclusion", "freeze-holder")
        script = shown_by(case, fires)
        begun.script = breaks(KeyboardInterrupt(), lambda trial: trial.attempt == 2, script)
        with pytest.raises(KeyboardInterrupt):
            begun.session(fences).answer(case)
        begun.script = script
        session = again(begun, fences)
        assert begun.told[0].facts["kept"] == (), "it is not done yet"
        answer = session.answer(case)
        assert [trial.attempt for trial in begun.trials] == list(range(2, (fires or CONTROLS) + 1))
        assert answer.attempts == (fires or CONTROLS)
        session = again(begun, fences)
        assert (session.answer(case), begun.trials) == (answer, [])
        assert begun.told[0].facts["kept"] == (("redis", "freeze-holder", 1, 4.0 * (fires or CONTROLS)),)


class TestWhatIsSetAside:
    def once(self, world: World, fences: Selection) -> Path:
        """Runs the column without a fault. Returns the trial's folder."""
        world.session(fences).answer(case_of(fences, "server-exclusion", "none"))
        return world.run.path / "trials" / "redis-none-7"

    def must_run_again(self, world: World, fences: Selection, why: str) -> None:
        again(world, fences).answer(case_of(fences, "server-exclusion", "none"))
        assert [trial.column for trial in world.trials] == ["none"]
        (told,) = world.run.about()["interruptions"][-1]["again"]
        assert (told["trial"], why in told["because"]) == ("redis-none-7", True)
        assert names(world.run.path / "trials") == names(world.run.path / ASIDE) == ["redis-none-7"]
        assert world.run.read().problems == ()

    def test_a_trial_without_a_verdict_is_run_again(self, begun: World, fences: Selection) -> None:
        begun.script = breaks(TrialBroke("redis1 is paused"))
        with pytest.raises(TrialBroke):
            self.once(begun, fences)
        begun.script = lambda _: {}
        self.must_run_again(begun, fences, "redis1 is paused")

    def test_a_trial_that_a_worker_broke_is_run_again_as_a_whole(self, begun: World, both: Selection) -> None:
        lanes = [lane.name for lane in both.lanes if lane.lock_name == "redlock"]
        begun.script = breaks(WorkerBroke("a bug of redlock's", lanes), with_redlock)
        (case, *_) = askable(both, "redis")
        begun.session(both).answer(case)
        assert names(begun.run.path / "trials") == ["redis-none-7", "redis-none-7-part2"]
        begun.script = lambda _: {}
        again(begun, both).answer(case)
        assert names(begun.run.path / "trials") == ["redis-none-7"], "what is tried as a whole is not there twice"

    @cases("file, left", ("*.arrow", 100), ("*.arrow", None), ("verdicts.json", 0), ("trial.json", 0))
    def test_a_damaged_trial_is_run_again(self, begun: World, fences: Selection, file: str, left: int | None) -> None:
        """left: how many bytes of the file are left; None: no file at all."""
        (path, *_) = self.once(begun, fences).glob(file)
        path.unlink() if left is None else os.truncate(path, left)
        self.must_run_again(begun, fences, "")

    @pytest.mark.parametrize(("what", "stored"), [("plan", {}), ("lanes", []), ("version", "7.0"), ("ttl", {})])
    def test_an_outdated_trial_is_run_again(self, begun: World, fences: Selection, what: str, stored: object) -> None:
        file = self.once(begun, fences) / "trial.json"
        told = json.loads(file.read_text())
        told["about"][what] = stored
        file.write_text(json.dumps(told))
        self.must_run_again(begun, fences, "it would not be run like that today")

    def test_a_control_whose_first_trial_is_gone_is_run_from_the_start(self, begun: World, fences: Selection) -> None:
        case = case_of(fences, "holder-exclusion", "freeze-holder")
        begun.script = shown_by(case, 2)
        begun.session(fences).answer(case)
        (begun.run.path / "trials" / "redis-freeze-holder-7" / "trial.json").unlink()
        again(begun, fences).answer(case)
        assert [trial.attempt for trial in begun.trials] == [1, 2]
        assert names(begun.run.path / ASIDE) == ["redis-freeze-holder-7", "redis-freeze-holder-8"]

    def test_half_written_folders_are_removed(self, begun: World, fences: Selection) -> None:
        self.once(begun, fences)
        for place in ("trials", "not-run", "."):
            half = begun.run.path / place / ".redis-none-8.7-1234abcd.partial"
            half.mkdir(parents=True)
            (half / "trial.json").write_text("{")
        again(begun, fences)
        assert not list(begun.run.path.rglob("*.partial"))


def test_a_trial_whose_page_was_not_drawn_yet_gets_it(begun: World, fences: Selection) -> None:
    begun.session(fences).answer(case_of(fences, "server-exclusion", "none"))
    folder = begun.run.path / "trials" / "redis-none-7"
    whole = (folder / "verdicts.json").read_text()
    half = json.loads(whole)
    for lane in half["lanes"]:
        lane["measures"] = None
    (folder / "verdicts.json").write_text(json.dumps(half))
    (folder / "index.html").unlink()
    again(begun, fences)
    assert ((folder / "verdicts.json").read_text(), (folder / "index.html").is_file()) == (whole, True)


class TestTheFolder:
    def test_the_folder_says_that_it_was_resumed_and_is_closed_as_usual(self, begun: World, fences: Selection) -> None:
        begun.session(fences).answer(case_of(fences, "server-exclusion", "none"))
        begun.run.close({"finished": "2026-11-22T07:31:15+00:00", "interrupted": True, "broken off": ["redis none"]})
        started = begun.run.about()["started"]
        again(begun, fences)
        assert not {"summary.json", "index.html"}.intersection(names(begun.run.path))
        asked = begun.run.about()
        (told,) = asked["interruptions"]
        at = (asked["started"], told["at"], told["broken off"], told["kept"])
        assert at == (started, "2026-11-22T07:31:15+00:00", ["redis none"], 1)
        begun.run.close({"exit status": 0})
        summary = json.loads((begun.run.path / "summary.json").read_text())
        assert (summary["about"], len(summary["asked"]["interruptions"])) == ({"exit status": 0}, 1)
        assert why_not(begun.run).startswith("came to its end")

    def test_only_one_process_resumes_a_folder_and_then_each_of_its_processes_holds_it(self, begun: World) -> None:
        path = begun.run.path
        die(begun.run)
        first = reopen(Run.open(path), {})
        with pytest.raises(BadFile, match="still going on"):
            reopen(Run.open(path), {})
        other = Run.join(path)
        assert is_running(path)
        die(first)
        assert is_running(path)
        die(other)
        assert not is_running(path)
        assert len(first.about()["interruptions"]) == 1

    def test_a_line_that_was_cut_short_takes_no_other_along(self, begun: World, fences: Selection) -> None:
        (begun.run.path / "events.jsonl").write_bytes(b'{"at": 1, "by"')
        again(begun, fences)
        with (begun.run.path / "events.jsonl").open("ab") as file:
            file.write(b'{"at": 2.0, "by": "main", "event": "says"}\n')
        assert [event.name for event in Tail(begun.run.path).read()] == ["says"]


def test_interruptions_change_no_certificate(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(resume, "other_images", lambda *_: "")
    columns = ["none", "freeze-holder", "upgrade-leader-first", "rollback-end"]
    run = upgrading(faults=columns)
    stages = {stage.name: dict(stage.versions) for stage in run.stages}
    cases = [case for column in columns for case in every_case(run, column) if case.because is None]
    broken = {("redis/register/unfenced", "server-exclusion"): Verdict.VIOLATED}
    world.script = lambda trial: broken if trial.stage == "candidate" else {}
    told = []
    for number, halves in enumerate([(cases,), (cases[: len(cases) // 2], cases)]):
        about = {"command": ["pytest", "suites/"], "plans": [], "stages": stages, "seed": 1}
        world.run = Run.create(tmp_path / str(number), about)
        session = world.session(run)
        for half in halves:
            session = session if half is halves[0] else again(world, run)
            for case in half:
                session.answer(case)
        world.run.close({"exit status": 1})
        certificate, page = issue(world.run)
        assert ("resumed" in page.read_text()) == (len(halves) > 1)
        stored = json.loads((world.run.path / "certificate.json").read_text())
        del stored["evidence"]["run.json"]  # it tells of the interruption
        assert len(stored["asked"].get("interruptions", ())) == len(halves) - 1
        told.append((certificate.decision, {name: stored[name] for name in stored.keys() - {"run", "digest", "asked"}}))
    assert told[0] == told[1]
    assert told[0][0] is Decision.REGRESSION


class TestRefused:
    @cases(
        "about, end, why",
        *((f"ended with {n}", BEGUN, {"exit status": n}, "came to its end: there is nothing to resume") for n in ENDED),
        ("merged", {**BEGUN, "merged": [{}]}, {}, "was merged from others"),
        ("without a command", {}, {}, "does not say by which command"),
    )
    def test_a_run_that_cannot_go_on_gives_the_reason(self, tmp_path: Path, about: Any, end: Any, why: str) -> None:
        Run.create(tmp_path, about).close(end)
        with pytest.raises(BadOption, match=why):
            interrupted("last", tmp_path)

    @cases("end", ("ctrl-c", {"exit status": 2, "interrupted": True}), ("docker", {"exit status": 4}), ("killed", None))
    def test_a_run_without_an_end_is_resumed_once_it_ended(self, begun: World, end: Mapping[str, Any] | None) -> None:
        with pytest.raises(BadOption, match="is still going on"):
            interrupted(str(begun.run.path), begun.run.path.parent)
        die(begun.run) if end is None else begun.run.close(end)
        assert interrupted("last", begun.run.path.parent).path == begun.run.path

    def test_a_run_with_other_plans_is_not_resumed(self, begun: World, fences: Selection) -> None:
        die(begun.run)
        about = {**begun.run.about(), "plans": [{}]}
        (begun.run.path / "run.json").write_text(json.dumps({"format": 2, "started": "", "about": about}))
        with pytest.raises(BadOption, match="the plans are not those"):
            go_on(fences, Run.open(begun.run.path))

    def test_pytest_refuses_an_unknown_run_in_one_line(self, tmp_path: Path) -> None:
        done = collected("--resume", "nope", "--results", str(tmp_path))
        assert (done.returncode, done.stdout) == (USAGE, "")
        assert done.stderr.strip() == f"ERROR: --resume nope: no run 'nope' in {tmp_path}, which has none"


def test_a_resumed_run_collects_the_tests_of_the_interrupted_run(tmp_path: Path) -> None:
    words = ["suites/", "--lock", "redis", "--faults", "none", "-k", "fenced", "--seed=3"]
    Run.create(tmp_path, {"command": ["pytest", *words]}).close({"exit status": 2, "interrupted": True})
    begun = collected(*words[1:])
    resumed = collected("--resume", "last", "--results", str(tmp_path))
    tests = [line for line in begun.stdout.splitlines() if "::" in line]
    assert (begun.returncode, resumed.returncode) == (0, 0), resumed.stderr
    assert [line for line in resumed.stdout.splitlines() if "::" in line] == tests != []


class TestOptions:
    USUAL = Namespace(**selections.USUAL, file_or_dir=["suites/"], keyword="", markexpr="", deselect=None)
    SAID: ClassVar = {"lock": ["redis"], "faults": ["none"], "seed": 3, "from_": ["etcd=3.4"], "to": ["etcd=3.5"]}
    BEGUN = Namespace(**{**vars(USUAL), **SAID, "keyword": "fenced", "keys": 3})

    def take(self, tmp_path: Path, words: Iterable[str] = (), **given: object) -> Namespace:
        run = Run.create(tmp_path, {"command": ["pytest", "as it was begun"]})
        option = Namespace(**{**vars(self.USUAL), "resume": "last", "results": "elsewhere", **given})
        parsed = {("as it was begun",): self.BEGUN, (): self.USUAL}
        take_options(option, list(words), tmp_path, run, lambda words: parsed[tuple(words)])
        return option

    def test_options_are_taken_from_the_run_and_may_be_repeated(self, tmp_path: Path) -> None:
        taken = self.take(tmp_path)
        assert vars(taken) == {**vars(self.BEGUN), "resume": "last", "results": "elsewhere"}
        assert self.take(tmp_path / "again", ["--seed", "3"], **self.SAID) == taken

    @cases(
        "words, given, why",
        ("another seed", (), {"seed": 4}, "--seed 4 is asked for, the run was begun with 3"),
        ("the usual seed", ("--seed=1",), {}, "--seed 1 is asked for, the run was begun with 3"),
        ("another version", (), {"to": ["etcd=3.6"]}, "--to etcd=3.6 is asked for, the run was begun with etcd=3.5"),
        ("version", (), {"version_of": ["etcd=3"]}, "--version-of etcd=3 is asked for, the run was begun with nothing"),
        ("a shard", (), {"shard": "1/2"}, "--shard 1/2 is asked for, the run was begun with nothing"),
        ("a keyword", (), {"keyword": "fifo"}, "-k fifo is asked for, the run was begun with fenced"),
        ("a file", (), {"file_or_dir": ["suites/a.py"]}, "suites/a.py is asked for, the run was begun with /"),
    )
    def test_other_options_are_refused(self, tmp_path: Path, words: Iterable[str], given: Any, why: str) -> None:
        with pytest.raises(BadOption, match=rf"^.*{re.escape(why)}.*\Z"):
            self.take(tmp_path, words, **given)


IMAGE = "fencepost/redis:trixie"
SAME = {IMAGE: "sha256:1"}


@cases(
    "given, has, current, says",
    ("same", {}, SAME, True, "^$"),
    ("another of one name", {}, {IMAGE: "sha256:2"}, True, f"^{IMAGE} is another image by now, or none"),
    ("none of that name", {}, {}, True, f"^{IMAGE} is another image by now, or none"),
    ("a version that means another", {"version_of": ["redis=image:mine:1"]}, SAME, True, "^redis .* by now"),
    ("another recipe", {}, SAME, False, "would be built anew"),
)
def test_new_images_are_named(given: Any, has: Any, current: bool, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "image_id", has.get)
    monkeypatch.setattr(images, "is_current", lambda _: current)
    nodes = {"redis1": {"image": IMAGE, "digest": "sha256:1"}}
    told = {"backend": "redis", "stage": "", "faults": ["none"], "version": None, "nodes": nodes}
    assert re.search(says, resume.other_images(asked(lock=["redis"], **given), [told, told]))


def test_looking_changes_nothing(begun: World, fences: Selection) -> None:
    begun.session(fences).answer(case_of(fences, "server-exclusion", "none"))
    begun.run.save_trial(TrialRecord("broken", {**about(begun.trials[0]), "error": "so"}, ()))
    before = {path: path.stat().st_mtime_ns for path in begun.run.path.rglob("*")}
    kept = examine(fences, begun.run)
    aside = {path.name: why for path, why in kept.aside.items()}
    assert ([path.name for path in kept.trials], aside) == (["redis-none-7"], {"broken": "so"})
    assert {path: path.stat().st_mtime_ns for path in begun.run.path.rglob("*")} == before


def test_show_says_how_to_go_on(begun: World, capsys: pytest.CaptureFixture[str]) -> None:
    listing.show(RUNS, str(begun.run.path), None)
    assert "to go on" not in capsys.readouterr().out
    die(begun.run)
    for folder, where in ((ROOT, ""), (ROOT.parent, f"{ROOT}/")):
        with contextlib.chdir(folder):
            listing.show(RUNS, str(begun.run.path), None)
            command = f"{where}.venv/bin/python -m pytest {where}suites/ --lock redis --resume {typed(begun.run.path)}"
        assert capsys.readouterr().out.splitlines()[-1] == f"interrupted; to go on: {command}"
