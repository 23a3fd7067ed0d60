"""Damaged and forged run folders: damage is named, the rest is shown, and nothing outside of the folders is read."""

import copy
import io
import json
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console

from results.__main__ import main
from results.commands import find, listing
from results.commands.redraw import redraw
from results.run import Run
from results.storage import files, summary
from results.storage.reading import load_trial
from results.storage.run_folder import is_running
from results.terminal import matrix
from results.tests import samples

FORMATS: Final = Path(__file__).parent / "formats"
RUNS: Final = {path.parent.name: path for path in sorted(FORMATS.glob("*/*")) if path.is_dir()}
"""A small recorded run of each format that is read."""
TRIAL = "redis-late-write-1"

VALUES: Final[dict[str, Any]] = {
    "nothing": None, "true": True, "a fraction": 0.5, "minus one": -1, "huge": 10**400, "infinite": float("inf"),
    "no number": float("nan"), "a text": "\ud800<script>\x1b[2J", "a path": "../../../../etc/passwd", "a list": [[]],
    "an object": {"": {}},
}  # fmt: skip
TEXTS: Final[dict[str, bytes]] = {
    "empty": b"", "cut": b'{"format": 2, "name": "x', "a list": b"[]", "no format": b"{}",
    "a future format": b'{"format": 3}', "true": b'{"format": true}', "a fraction": b'{"format": 2.0}',
    "a deep format": b'{"format": ' + b"[" * 900 + b"]" * 900 + b"}",
    "deep": b'{"format": 2, "about": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    "not a text": b'{"format": 2, "name": "\xff\xfe"}', "another text": '{"format": 2}'.encode("utf-16"),
    "too long a number": b'{"format": 2, "about": ' + b"9" * 5000 + b"}", "zeros": bytes(4096),
}  # fmt: skip
MISSING: Final = object()
ABOVE = "../etcd-none-1/etcd-set-fence-reads-and-writes.arrow"


def places(data: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to every value in some JSON, the whole JSON included."""
    yield way
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(value, (*way, key))


def mutated(data: Any, way: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at the end of `way`, or without any for MISSING."""
    if not way:
        return value
    made = holder = copy.deepcopy(data)
    for key in way[:-1]:
        holder = holder[key]
    if value is MISSING:
        del holder[way[-1]]
    else:
        holder[way[-1]] = value
    return made


def variants(path: Path) -> Iterator[tuple[str, bytes]]:
    """Every damaged version of a JSON file, with what is damaged in it."""
    data = json.loads(path.read_bytes())
    for way in places(data):
        name = "/".join(map(str, way))
        for kind, value in {**VALUES, **({"missing": MISSING} if way else {})}.items():
            yield f"{path.name} {name}: {kind}", json.dumps(mutated(data, way, value)).encode()
    for kind, text in TEXTS.items():
        yield f"{path.name}: {kind}", text
    whole = path.read_bytes()
    for size in (1, len(whole) // 2, len(whole) - 3):
        yield f"{path.name}: {size} bytes", whole[:size]


def some(path: Path, most: int = 40) -> list[tuple[str, bytes]]:
    found = list(variants(path))
    return random.Random(7).sample(found, min(most, len(found)))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(shutil.copytree(RUNS["2"], tmp_path / "runs" / RUNS["2"].name))


def look(run: Run, capsys: pytest.CaptureFixture[str]) -> str:
    """What a person sees of all runs and of this one. Nothing is raised, whatever is damaged."""
    assert listing.list_(run.path.parent, json=False) == 0
    assert listing.list_(run.path.parent, json=True) == 0
    try:
        contents = find.find("last", run.path.parent).read()
    except files.BadFile as error:
        return str(error)
    screen = io.StringIO()
    matrix.render(contents.cells, Console(file=screen, width=100), contents.problems)
    printed = capsys.readouterr().out + screen.getvalue()
    assert "\x1b" not in printed
    return printed


@pytest.mark.parametrize("name", ["run.json", "summary.json", f"trials/{TRIAL}/trial.json", "not-run"])
def test_a_damaged_file_breaks_neither_list_nor_matrix(run: Run, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = run.path / name
    path = next(path.iterdir()) if path.is_dir() else path
    for _, text in some(path):
        path.write_bytes(text)
        look(run, capsys)


def test_damaged_verdicts_of_a_trial_do_not_hide_another_trial(run: Run) -> None:
    path = run.path / "trials" / TRIAL / "verdicts.json"
    for kind, text in some(path):
        path.write_bytes(text)
        contents = run.read()
        lanes = {cell.lane for cell in contents.cells}
        damaged = [problem for problem in contents.problems if problem.startswith(f"trials/{TRIAL}")]
        assert damaged or len(lanes) == 2 or "lane" in kind or "judgements" in kind or "version" in kind, kind
        assert "etcd/set/fence-reads-and-writes" in lanes


def test_a_damaged_trial_is_either_refused_or_drawn(run: Run) -> None:
    folder = run.path / "trials" / TRIAL
    drawn = 0
    for path in (folder / "trial.json", folder / "verdicts.json"):
        whole = path.read_bytes()
        for _, text in some(path, 25):
            path.write_bytes(text)
            with suppress(files.BadFile):
                run.draw_trial(folder)
                drawn += 1
        path.write_bytes(whole)
    assert drawn


def test_a_run_with_a_damaged_trial_can_be_closed(run: Run) -> None:
    path = run.path / "trials" / TRIAL / "trial.json"
    for _, text in some(path, 15):
        path.write_bytes(text)
        run.close({})
        assert summary.load(run.path).run == run.path.name


@pytest.mark.parametrize("size", [0, 8, 1000, -1], ids=["empty", "8-bytes", "1000-bytes", "all-but-one-byte"])
def test_a_history_that_is_cut_off_is_refused_but_its_verdicts_are_shown(run: Run, size: int) -> None:
    [path] = (run.path / "trials" / TRIAL).glob("*.arrow")
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(files.BadFile, match=path.name):
        load_trial(path.parent)
    assert len({cell.trial for cell in run.read().cells}) == 2, "what was judged is still told"


@pytest.mark.parametrize("name", ["trial.json", "verdicts.json", "redis-register-unfenced.arrow", "logs/redis1"])
@pytest.mark.parametrize("instead", ["nothing", "a folder", "a link", "a broken link", "a pipe"])
def test_a_missing_file_or_one_of_another_kind_is_refused(run: Run, name: str, instead: str, tmp_path: Path) -> None:
    path = run.path / "trials" / TRIAL / name
    elsewhere = tmp_path / "elsewhere"
    shutil.copy(path, elsewhere)
    path.unlink()
    if instead == "a folder":
        path.mkdir()
    elif instead == "a pipe":
        os.mkfifo(path)
    elif instead != "nothing":
        path.symlink_to(elsewhere if instead == "a link" else tmp_path / "nowhere")
    with pytest.raises(files.BadFile, match=path.name):
        load_trial(run.path / "trials" / TRIAL)
    assert run.read().problems or not name.endswith(".json")


@pytest.mark.parametrize("what", ["trials", f"trials/{TRIAL}", "not-run"])
def test_a_folder_that_is_a_link_is_not_followed(run: Run, what: str, tmp_path: Path) -> None:
    path = run.path / what
    path.symlink_to(path.rename(tmp_path / "elsewhere"))
    contents = run.read()
    assert contents.problems == (f"{what}: a link, which is not followed",)
    assert TRIAL not in {cell.trial for cell in contents.cells} or what == "not-run"


def test_logs_that_stand_elsewhere_are_not_read(run: Run, tmp_path: Path) -> None:
    logs = run.path / "trials" / TRIAL / "logs"
    logs.symlink_to(logs.rename(tmp_path / "elsewhere"))
    with pytest.raises(files.BadFile, match="logs: a link, which is not followed"):
        load_trial(logs.parent)


@pytest.mark.parametrize("name", [ABOVE, "/etc/passwd", ".", "..", "", "a\0b", "..\\x.arrow"])
@pytest.mark.parametrize("where", ["file", "logs"])
def test_a_name_that_leads_elsewhere_is_refused(run: Run, name: str, where: str) -> None:
    folder = run.path / "trials" / TRIAL
    path = folder / ("verdicts.json" if where == "file" else "trial.json")
    data = files.read_json(path)
    way = ("lanes", 0, "file") if where == "file" else ("logs", "redis1")
    files.write_json(path, mutated(data, way, name))
    with pytest.raises(files.BadFile, match="is not the name of a file in it"):
        load_trial(folder)


def test_a_violation_with_a_row_that_the_history_lacks_is_refused(run: Run) -> None:
    folder = run.path / "trials" / TRIAL
    data = files.read_json(folder / "verdicts.json")
    broken = next(judgement for judgement in data["lanes"][0]["judgements"] if judgement["violation"])
    broken["violation"]["rows"][0] = 10**9
    files.write_json(folder / "verdicts.json", data)
    with pytest.raises(files.BadFile, match="tells of a row that"):
        load_trial(folder)


@pytest.mark.parametrize("page", ["../../x/index.html", "/etc/passwd", "trials/../index.html", "javascript:alert(1)"])
def test_a_link_of_a_summary_that_leads_elsewhere_is_refused(run: Run, page: str) -> None:
    path = run.path / "summary.json"
    files.write_json(path, mutated(files.read_json(path), ("cells", 0, "page"), page))
    with pytest.raises(files.BadFile, match="page"):
        summary.load(run.path)


def test_a_damaged_summary_and_a_damaged_run_are_named(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    (run.path / "summary.json").write_text("{")
    printed = look(run, capsys)
    assert "2 known weakness shown" in printed
    assert "damaged summary" in printed
    (run.path / "run.json").write_text("{")
    assert "run.json: not JSON" in look(run, capsys)
    assert f"{run.path.name}  damaged:" in capsys.readouterr().out


def test_a_folder_name_that_is_no_text_is_a_problem_and_no_crash(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    folder = os.fsencode(run.path / "trials") + b"/\xff\x1b[2J"
    try:
        Path(os.fsdecode(folder)).mkdir()
    except OSError:
        pytest.skip("this file system takes no such names")
    assert len(run.read().problems) == 1
    look(run, capsys)
    run.close({})


def test_nothing_is_written_through_a_link(run: Run, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (run.path / "assets").symlink_to(tmp_path / "elsewhere")
    (run.path / "index.html").symlink_to(tmp_path / "page")
    with pytest.raises(files.BadFile, match="assets: a link, which is not followed"):
        run.close({})
    (run.path / "assets").unlink()
    run.close({})
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert not (tmp_path / "page").exists()


def test_the_folder_of_all_runs_may_be_a_link(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "linked").symlink_to(run.path.parent)
    assert find.find("last", tmp_path / "linked").read().problems == ()
    run.close({})
    assert run.path.name in (tmp_path / "linked" / "index.html").read_text("utf-8")


def test_a_run_is_closed_without_the_page_of_all_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = samples.run(tmp_path / "runs" / "r", samples.trial())
    page = run.path.parent / "index.html"
    page.mkdir()
    heard: list[str] = []
    assert run.close({"exit status": 0}, heard.append) == run.path / "index.html"
    line = f"the page of all runs was not written: {page}: Is a directory"
    assert (heard, run.head()[1]) == ([line], "closed")
    assert not is_running(run.path)
    run.close({})
    assert capsys.readouterr() == ("", f"results: {line}\n")
    assert redraw(run.path.parent, "last") == 2
    assert capsys.readouterr() == (f"{run.path / 'index.html'}\n", f"results: {line}\n")
    assert main(["prune", "--results", str(run.path.parent), "--keep", "0", "--failed-too", "--yes"]) == 2
    printed = capsys.readouterr()
    assert (printed.err, "removed 1 run" in printed.out) == (f"results: {line}\n", True)
    assert not run.path.exists()


def test_an_unwritable_page_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run.create(tmp_path / "runs", {})
    first, second = (run.save_trial(samples.trial(name)) for name in ("first", "second"))
    run.close({})
    first.unlink()
    first.mkdir()
    second.unlink()
    assert redraw(run.path.parent, "last") == 2
    assert capsys.readouterr().err == f"results: {first}: Is a directory\n"
    assert second.is_file()
    assert [path.name for path in first.parent.iterdir() if path.name.startswith(".")] == []
