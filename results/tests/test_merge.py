"""`results merge`: nothing twice, nothing lost, nothing of another run. `results prune`: above all, what it keeps."""

import json
import os
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from checkers.claims import Verdict
from checkers.tests.build import cases, there
from results.__main__ import main
from results.commands import merge
from results.record import NotRun
from results.run import Run
from results.storage import files
from results.storage.reading import load_trial
from results.tests import hostile, samples
from results.tests.test_damage import RUNS


def make(root: Path, name: str, *trials: str, started: int = 1, **asked: Any) -> Run:
    about = {"seed": 7, "profile": "default", "versions": {}, "targets": {}, "command": ["pytest", "suites/"], **asked}
    records = [samples.trial(trial, seed=started * 10 + number) for number, trial in enumerate(trials)]
    return samples.run(root / name, *records, started=f"2026-11-22T08:00:0{started}+00:00", **about)


def shard(root: Path, i: int, n: int, *trials: str) -> Run:
    command = ["pytest", "suites/", "--shard", f"{i}/{n}", "-n", "2", f"--results=/machine/{i}"]
    run = make(root, f"shard-{i}", *trials, started=i, shard=f"{i}/{n}", command=command)
    run.close({"finished": f"2026-11-22T09:00:0{i}+00:00", "exit status": 0 if i == 1 else 1})
    return run


@pytest.fixture
def shards(tmp_path: Path) -> list[Run]:
    return [shard(tmp_path / "runs", 1, 2, "a", "b"), shard(tmp_path / "runs", 2, 2, "b", "c")]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "merged"


def parts(root: Path, *asked: dict[str, Any]) -> list[Run]:
    runs = [make(root, f"part-{n}", f"t{n}", started=n, **each) for n, each in enumerate(asked, 1)]
    for run in runs:
        run.close({})
    return runs


def trials(path: Path) -> list[str]:
    return sorted(folder.name for folder in (path / "trials").iterdir())


def snapshot(path: Path) -> dict[str, bytes]:
    """Path in the run folder → content, of all files with what was recorded and judged."""
    names = ("trial.json", "verdicts.json", "merged.json", "plan.json")
    files = (file for file in path.rglob("*") if file.name in names or file.suffix == ".arrow")
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def test_shards_become_one_run_whose_pages_tell_where_they_stand_now(shards: list[Run], out: Path) -> None:
    assert merge.merge(out, shards) == (out / "index.html", [])
    merged = Run.open(out)
    assert trials(out) == ["a", "b", "b~2", "c"]
    assert ({cell.trial for cell in merged.read().cells}, len(merged.read().lanes)) == ({"a", "b", "c"}, 8)
    assert len(merged.read().cells) == sum(len(run.read().cells) for run in shards)
    head, state = merged.head()
    assert (state, head.started) == ("closed", "2026-11-22T08:00:01+00:00")
    assert (head.asked["seed"], head.asked["command"], "shard" in head.asked) == (7, ["pytest", "suites/"], False)
    assert head.about == {"runs": ["shard-1", "shard-2"], "finished": "2026-11-22T09:00:02+00:00", "exit status": 1}
    for folder in (out / "trials").iterdir():
        assert str(folder) in (folder / "index.html").read_text("utf-8")
        assert load_trial(folder).lanes
    assert "shard-1/trials" in (shards[0].path / "trials" / "a" / "index.html").read_text("utf-8")


def test_a_run_that_is_merged_again_adds_nothing(shards: list[Run], out: Path) -> None:
    merge.merge(out, [*shards, shards[0]])
    before = snapshot(out)
    merge.merge(out, shards)
    merge.merge(out, shards[:1])
    assert snapshot(out) == before
    assert [part["run"] for part in Run.open(out).about()["merged"]] == ["shard-1", "shard-2"]


def test_merging_runs_one_by_one_is_the_same_as_all_at_once(shards: list[Run], out: Path, tmp_path: Path) -> None:
    merge.merge(out, shards)
    merge.merge(tmp_path / "steps", shards[:1])
    merge.merge(tmp_path / "steps", shards[1:])
    assert snapshot(tmp_path / "steps") == snapshot(out)
    merge.merge(tmp_path / "of-merged", [Run.open(tmp_path / "steps"), shards[0]])
    assert snapshot(tmp_path / "of-merged") == snapshot(out)
    assert len(Run.open(tmp_path / "of-merged").about()["merged"]) == 2


def test_cells_that_another_shard_ran_are_not_listed_as_not_run(tmp_path: Path, out: Path) -> None:
    runs = [shard(tmp_path / "runs", 1, 2, "a"), shard(tmp_path / "runs", 2, 2)]
    half = NotRun("redis", "redis", "freeze-holder", "in another shard", lane="redis/register/guarded")
    never = NotRun("redis", "redis", "isolate-leader-drop", "redis has no leader")
    done = replace(half, lane="redis/register/unfenced"), replace(half, lock="", lane="")
    runs[1].save_not_run([*done, half, never])
    runs[0].save_not_run([never])
    merge.merge(out, runs)
    merge.merge(out, runs[1:])
    left = [cell for cell in Run.open(out).read().cells if cell.word is Verdict.NOT_APPLICABLE]
    assert {(cell.fault, cell.lane) for cell in left} == {(one.fault, one.lane) for one in (half, never)}
    assert len(left) == 2


@cases(
    "one, other, why",
    ("seed", {}, {"seed": 8}, "seed 7, 8"),
    ("profile", {}, {"profile": "smoke"}, "profile 'default', 'smoke'"),
    ("version", {"versions": {"etcd": "3.4"}}, {"versions": {"etcd": "3.5"}}, "versions of etcd '3.4', '3.5'"),
    ("target", {"targets": {"etcd": ["a:1"]}}, {"targets": {"etcd": ["b:1"]}}, "targets of etcd"),
    ("command", {}, {"command": ["pytest", "suites/", "--count", "3"]}, "'pytest suites/', 'pytest suites/ --count 3'"),
    ("same-shard", {"shard": "1/2"}, {"shard": "1/2"}, "shard 1/2, 1/2"),
    ("other-shards", {"shard": "1/2"}, {"shard": "2/3"}, "shard 1/2, 2/3"),
)
def test_runs_of_different_questions_are_not_merged(
    tmp_path: Path, out: Path, one: dict[str, Any], other: dict[str, Any], why: str
) -> None:
    runs = parts(tmp_path, one, other)
    said = f"^part-1 and part-2 are not parts of one run: .*{re.escape(why)}.*; --force merges them nevertheless$"
    with pytest.raises(files.BadFile, match=said):
        merge.merge(out, runs)
    assert not out.exists(), "nothing was done"
    merge.merge(out, runs, force=True)
    assert trials(out) == ["t1", "t2"]
    if other.get("versions"):
        assert Run.open(out).about()["versions"] == {"etcd": "3.4, 3.5"}


def test_backends_and_versions_may_be_spread_over_machines(tmp_path: Path, out: Path) -> None:
    etcd = {"versions": {"etcd": "3.4"}, "command": ["pytest", "suites/", "--backend", "etcd", "-n2"]}
    words = ["pytest", "suites/", "--backend=redis", "--version-of", "redis=7.2", "-q"]
    merge.merge(out, parts(tmp_path, etcd, {"versions": {"redis": "7.2"}, "command": words}))
    assert Run.open(out).about()["versions"] == {"etcd": "3.4", "redis": "7.2"}


def test_a_merged_run_has_the_descriptions_of_all_its_parts(tmp_path: Path, out: Path) -> None:
    kill, cut = ({name: {"group": group, "text": name}} for name, group in (("kill", "servers"), ("cut", "links")))
    whole = {"faults": {**kill, **cut}, "locks": {"b": "B."}}
    described: list[dict[str, Any]] = [{"faults": kill, "locks": {"a": "A."}}, whole, {}]
    merge.merge(out, parts(tmp_path, *({"described": part} for part in described)))
    assert Run.open(out).about()["described"] == {"faults": {**kill, **cut}, "locks": {"a": "A.", "b": "B."}}


def test_a_missing_shard_is_reported(tmp_path: Path, out: Path) -> None:
    _, problems = merge.merge(out, [shard(tmp_path, 1, 3, "a"), shard(tmp_path, 3, 3, "c")])
    assert (problems, Run.open(out).head()[0].about["missing shards"]) == (["shard 2/3 is missing"], ["2/3"])


def test_damaged_trials_are_merged_and_named(shards: list[Run], out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shards[0].path / "trials" / "a" / "verdicts.json").write_text("{")
    (shards[0].path / "trials" / "link").symlink_to(shards[1].path / "trials" / "c")
    [history] = (shards[1].path / "trials" / "c").glob("*-unfenced.arrow")
    history.write_bytes(b"")
    words = [str(run.path) for run in shards]
    assert main(["merge", str(out), *words]) == 0
    assert "left out: trials/a/verdicts.json: not JSON" in capsys.readouterr().err
    assert trials(out) == ["a", "b", "b~2", "c"]
    assert {cell.trial for cell in Run.open(out).read().cells} == {"b", "c"}
    before = snapshot(out)
    assert (main(["merge", str(out), *words]), snapshot(out)) == (0, before)


def test_nothing_that_a_link_leads_to_comes_along(shards: list[Run], out: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = shards[0].path / "trials" / "a"
    (folder / "logs" / "more").symlink_to(tmp_path / "secret")
    (folder / "elsewhere").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    merge.merge(out, shards)
    assert not [path for path in out.rglob("*") if path.is_symlink() or path.name in ("more", "elsewhere", "pipe")]


def test_the_shards_stay_as_they_are(shards: list[Run], out: Path) -> None:
    files_of = [path for run in shards for path in run.path.rglob("*") if path.is_file()]
    before = [path.read_bytes() for path in files_of]
    merge.merge(out, shards)
    shutil.rmtree(out)
    assert before == [path.read_bytes() for path in files_of]


def test_without_hard_links_files_are_copied(shards: list[Run], out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.link", Mock(side_effect=OSError(18, "Invalid cross-device link")))
    merge.merge(out, shards)
    [one, other] = (next((root / "trials" / "a").glob("*-unfenced.arrow")) for root in (out, shards[0].path))
    assert one.read_bytes() == other.read_bytes()
    assert one.stat().st_ino != other.stat().st_ino


def test_runs_of_an_older_format_are_merged(out: Path, tmp_path: Path) -> None:
    old = Run(shutil.copytree(RUNS["1"], tmp_path / "old"))
    merge.merge(out, [old])
    assert json.loads((out / "run.json").read_text())["format"] == files.FORMAT
    assert len(Run.open(out).read().cells) == len(old.read().cells)


def test_an_interrupted_shard_makes_the_whole_an_interrupted_one(tmp_path: Path, out: Path) -> None:
    run = make(tmp_path, "one", "a")
    with pytest.raises(files.BadFile, match="still going on"):
        merge.merge(out, [run])
    there(run.going_on).close()
    merge.merge(out, [run])
    assert Run.open(out).head()[0].about["interrupted"] is True


def test_only_the_folder_of_the_results_gets_a_page_of_its_runs(shards: list[Run], tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("mine")
    root = shards[0].path.parent
    (root / "index.html").unlink()
    for place in (tmp_path, root):
        assert main(["--results", str(root), "merge", str(place / "merged"), "shard-1", "shard-2"]) == 0
        assert ((tmp_path / "index.html").read_text(), (root / "index.html").exists()) == ("mine", place == root)
    assert "merged" in (root / "index.html").read_text("utf-8")


def test_runs_are_not_merged_into_another_run_a_foreign_folder_or_themselves(shards: list[Run], tmp_path: Path) -> None:
    with pytest.raises(files.BadFile, match="was not made by merging"):
        merge.merge(shards[0].path, shards[1:])
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("mine")
    with pytest.raises(files.BadFile, match="exists, and is not a run"):
        merge.merge(tmp_path / "folder", shards)
    merge.merge(tmp_path / "merged", shards)
    with pytest.raises(files.BadFile, match="into itself"):
        merge.merge(tmp_path / "merged", [Run.open(tmp_path / "merged")])


ALL = ["run-0", "run-1", "run-2", "run-3"]


def closed(root: Path, name: str, days: float, *, failed: bool = False) -> Path:
    record = hostile.trial() if failed else samples.trial("t")
    began = datetime.now(UTC) - timedelta(days=days)
    run = samples.run(root / name, record, started=began.isoformat(timespec="seconds"))
    run.close({})
    return run.path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "runs"
    for number, days in enumerate((40, 20, 10, 1)):
        closed(made, f"run-{number}", days)
    return made


def left_by_prune(root: Path, *words: str, status: int = 0) -> list[str]:
    """The names of the folders that stand there after `results prune` with these words."""
    assert main(["--results", str(root), "prune", *words]) == status
    return sorted(path.name for path in root.iterdir() if path.is_dir() or path.is_symlink())


@cases(
    "words, names",
    ("two", ("--keep", "2"), ["run-2", "run-3"]),
    ("none", ("--keep", "0"), []),
    ("more than there are", ("--keep", "9"), ALL),
    ("days", ("--younger-than", "15d"), ["run-2", "run-3"]),
    ("hours", ("--younger-than", "36h"), ["run-3"]),
    ("weeks or one", ("--younger-than", "3w", "--keep", "1"), ["run-1", "run-2", "run-3"]),
    ("one by name", ("--keep", "1", "--keep-run", "run-0"), ["run-0", "run-3"]),
    ("two by name", ("--keep", "1", "--keep-run", "last~1", "--keep-run", "run-0"), ["run-0", "run-2", "run-3"]),
)
def test_prune_keeps_the_runs_that_its_options_choose(root: Path, words: tuple[str, ...], names: list[str]) -> None:
    assert left_by_prune(root, *words, "--yes") == names
    page = (root / "index.html").read_text("utf-8")
    assert all((name in page) == (name in names) for name in ALL) or names == ALL


@pytest.mark.parametrize("words", [(), ("--keep-run", "run-0"), ("--keep", "-1"), ("--younger-than", "soon")])
def test_prune_removes_nothing_without_a_valid_criterion(root: Path, words: tuple[str, ...]) -> None:
    assert left_by_prune(root, "--yes", *words, status=2) == ALL


def test_prune_needs_consent(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert left_by_prune(root, "--keep", "1", status=2) == ALL, "nobody can answer"
    assert "--yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, status, names in (("", 2, ALL), ("n", 2, ALL), ("y", 0, ["run-3"])):
        monkeypatch.setattr("builtins.input", lambda _, answer=answer: answer)
        assert left_by_prune(root, "--keep", "1", status=status) == names


def test_a_dry_run_lists_the_runs_to_remove_and_removes_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert left_by_prune(root, "--keep", "1", "--dry-run", "--yes") == ALL
    out = capsys.readouterr().out
    assert "run-0  to be removed" in out
    assert "run-3  kept: one of the last" in out
    assert "would remove 3 runs" in out


def test_a_run_that_failed_is_kept_unless_asked(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    closed(root, "failed", 50, failed=True)
    assert left_by_prune(root, "--keep", "0", "--yes") == ["failed"]
    assert "failed  kept: it failed" in capsys.readouterr().out
    assert left_by_prune(root, "--keep", "0", "--yes", "--failed-too") == []


def test_a_run_going_on_is_kept_and_one_interrupted_may_go(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = samples.run(root / "going-on")
    assert left_by_prune(root, "--keep", "0", "--yes", "--failed-too") == ["going-on"]
    assert "going-on  kept: still going on" in capsys.readouterr().out
    there(run.going_on).close()
    assert left_by_prune(root, "--keep", "0", "--yes") == []


def test_prune_touches_nothing_that_is_no_run_or_stands_elsewhere(root: Path, tmp_path: Path) -> None:
    elsewhere = closed(tmp_path, "elsewhere", 90)
    (root / "a-link").symlink_to(elsewhere)
    for name, text in (("notes/run", "mine"), ("damaged/run.json", "{"), ("future/run.json", '{"format": 3}')):
        (root / name).parent.mkdir()
        (root / name).write_text(text)
    (root / "run-0" / "trials" / "link").symlink_to(elsewhere / "trials")
    assert left_by_prune(root, "--keep", "0", "--yes", "--failed-too") == ["a-link", "damaged", "future", "notes"]
    assert (elsewhere / "trials" / "t" / "trial.json").is_file()


def test_prune_removes_the_remains_of_an_interrupted_removal(root: Path) -> None:
    (root / "run-0").rename(root / ".run-0.0123abcd.removed")
    (root / ".mine").mkdir()
    assert left_by_prune(root, "--keep", "2", "--yes") == [".mine", "run-2", "run-3"]


def test_what_stays_is_named(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("shutil.rmtree", Mock(side_effect=PermissionError(13, "Permission denied", "run")))
    assert left_by_prune(root, "--keep", "3", "--yes", status=2)[1:] == ALL[1:]
    assert "Permission denied" in capsys.readouterr().err
