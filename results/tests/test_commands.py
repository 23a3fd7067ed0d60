"""`python -m results`: its commands, what they print, and their exit statuses."""

import json
import re
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from checkers.command.exit_status import to_the_end
from checkers.tests.build import cases
from results import __main__ as command
from results.commands import find, schema
from results.pages import web
from results.record import CPU_PARTS
from results.run import Run
from results.tests import samples
from results.tests.conftest import Results
from results.tests.markup import golden
from results.tests.test_damage import RUNS

OLD, CLOSED, CUT = "20261122T073115Z-74f9", "20261123T080000Z-0001", "20261124T080000Z-0002"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three runs: one of format 1, one that was closed, one that was interrupted."""
    made = tmp_path / "runs"
    shutil.copytree(RUNS["1"], made / OLD)
    used = dict(zip(CPU_PARTS, (10.0, 2.0, 3.0, 4.0, 1.0), strict=True))
    samples.run(made / CLOSED, samples.trial(cpu=used)).close({"exit status": 0})
    samples.run(made / CUT, samples.trial(), started="2026-11-24T08:00:00+00:00", seed=2)
    return made


def said(results: Results, root: Path, *words: object, status: int = 0) -> tuple[str, str]:
    came_to, out, error = results("--results", root, *words)
    assert came_to == status
    return out, error


def test_list_shows_each_run_and_reads_no_trial_of_a_closed_run(root: Path, results: Results) -> None:
    three = "3 known weakness shown, 5 upheld"
    of_closed = ["PASSED: 2 known weakness shown, 14 upheld", f"PASSED: {three}", f"{three} (interrupted)"]
    lines = [f"{name}  {counts}" for name, counts in zip((OLD, CLOSED, CUT), of_closed, strict=True)]
    assert said(results, root, "list")[0].splitlines() == lines
    assert results("list", "--results", root)[:2] == (0, "\n".join([*lines, ""]))
    Run.open(root / CUT).close({"exit status": 2, "interrupted": True})
    shutil.rmtree(root / CLOSED / "trials")
    assert said(results, root, "list")[0].splitlines() == lines


def test_list_prints_a_json_object_for_each_run(root: Path, results: Results) -> None:
    (root / CLOSED / "run.json").write_text("{")
    out, _ = said(results, root, "list", "--json")
    told = [json.loads(line) for line in out.splitlines()]
    assert [(run["run"], run["state"]) for run in told] == [(OLD, "closed"), (CLOSED, "damaged"), (CUT, "interrupted")]
    assert told[2]["words"] == {"known weakness shown": 3, "upheld": 5}
    assert (told[2]["asked"], told[2]["failed"]) == ({"seed": 2}, False)


def test_runs_are_found_by_name_and_last_is_the_run_that_began_last(root: Path) -> None:
    for name, found in (("last", CUT), ("last~0", CUT), ("last~2", OLD), ("20261123", CLOSED), (OLD, OLD)):
        assert find.find(name, root).path.name == found, name
    (root / CLOSED).rename(root / "zz-merged")
    assert (find.find("last", root).path.name, find.find("last~1", root).path.name) == (CUT, "zz-merged")


@cases(
    "words, line",
    ("run", ("show", "nothing"), "results: no run 'nothing' in"),
    ("last", ("show", "last~3"), "results: no run last~3 in"),
    ("several", ("show", "2026"), "results: '2026' names 3 runs: 2026"),
    ("no name", ("show", ""), "results: no run '' in"),
    ("escapes", ("show", "x\x1b[2J"), "results: no run 'x\\x1b[2J' in"),
    ("long", ("show", "x" * 5000), "results: no run 'xxx"),
    ("zero", ("show", "a\0b"), "results: no run 'a\\x00b' in"),
    ("trial", ("show", "last", "nothing"), "results: no trial 'nothing' in"),
    ("export", ("export", "last/nothing"), "results: no trial 'nothing' in"),
    ("rejudge", ("rejudge", "nothing"), "results: no run 'nothing' in"),
)
def test_an_unknown_name_is_a_one_line_error(root: Path, words: tuple[str, ...], line: str, results: Results) -> None:
    out, err = said(results, root, *words, status=2)
    assert (out, err.count("\n"), err.count("\x1b")) == ("", 1, 0)
    assert err.startswith(line)


@pytest.mark.parametrize(
    "words", ["show 20261123", "show last redis-fr", "show last redis/register/unfenced", "load 20261123"]
)
def test_show_and_load_match_goldens(root: Path, words: str, results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = said(results, root, *words.split())[0].replace(str(root), "ROOT")
    assert text == golden(f"{words.replace('/', '-').replace(' ', '-')}.txt", text)


def test_show_of_a_hostile_trial_writes_no_escapes(root: Path, results: Results) -> None:
    Run(root / CUT).save_trial(samples.trial("\x1b[31mx", error="\x1b]0;title\x07\nsecond line"))
    out, _ = said(results, root, "show", "last", "31mx")
    assert "\x1b" not in out
    assert "\\x1b]0;title\\x07\\nsecond line" in out


def test_open_draws_a_missing_page_and_opens_it(root: Path, results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    pages = [root / CUT / "index.html", root / OLD / "trials" / "etcd-none-1" / "index.html"]
    for page, words in zip(pages, (["last"], [OLD, "etcd"]), strict=True):
        assert not page.exists()
        assert said(results, root, "open", *words)[0] == f"{page}\n"
        assert page.is_file(), "a page is drawn when somebody wants to see it"
    assert not (root / CUT / "summary.json").exists(), "an interrupted run stays one"
    assert opened == [page.as_uri() for page in pages]


def test_redraw_draws_every_page_and_names_a_damaged_trial(root: Path, results: Results) -> None:
    out, _ = said(results, root, "redraw", OLD)
    assert (len(list((root / OLD).glob("trials/*/index.html"))), out) == (2, f"{root / OLD / 'index.html'}\n")
    (root / OLD / "trials" / "etcd-none-1" / "etcd-set-fence-reads-and-writes.arrow").write_bytes(b"")
    _, err = said(results, root, "redraw", OLD, status=2)
    assert "etcd-set-fence-reads-and-writes.arrow" in err


def test_rejudge_lists_the_judgements_that_differ(root: Path, results: Results) -> None:
    # Since this run was stored, a belief is exercised only if a lease ended.
    changed = "etcd-none-1  etcd/set/fence-reads-and-writes  honest-belief: was upheld (held), is not applicable ("
    out, _ = said(results, root, "rejudge", OLD, status=1)
    assert [line.partition("nothing makes")[0] for line in out.splitlines()] == [changed, "16 judgements, 1 different"]
    path = root / OLD / "trials" / "etcd-none-1" / "verdicts.json"
    path.write_text(path.read_text().replace('"upheld"', '"violated"', 1))
    out, _ = said(results, root, "rejudge", OLD, status=1)
    assert "server-exclusion: was violated (held), is upheld (held)" in out
    assert "16 judgements, 2 different" in out


def test_an_exported_page_stands_alone_and_an_error_names_the_file(root: Path, results: Results) -> None:
    file, trial = root / "out.html", root / OLD / "trials" / "redis-late-write-1"

    def exported(of: str) -> str:
        assert said(results, root, "export", of, "-o", str(file))[0] == f"{file}\n"
        text = file.read_text("utf-8")
        assert set(re.findall(r'href="(.)', text)) <= {"#", "d"}, "within the page, or data:"
        assert 'src="' not in text
        return text

    text = exported(f"{OLD}/redis")
    assert web.timeline_script() in text
    assert trial.name in text
    assert exported(str(trial)) == text
    text = exported(OLD)
    assert [part in text for part in ("late-write", "all runs", "trials/")] == [True, True, False]
    file = root / "missing" / "out.html"
    _, error = said(results, root, "export", "last", "-o", str(file), status=2)
    assert error == f"results: {file}: No such file or directory\n"


def test_help_names_every_command_and_schema_prints_the_schema(results: Results, tmp_path: Path) -> None:
    out, _ = said(results, tmp_path, "--help")
    assert all(f"\n  {name}" in out for name in command.COMMANDS.commands)
    assert results() == (2, "", out)
    assert "No such command 'lst'. Did you mean 'list'?" in said(results, tmp_path, "lst", status=2)[1]
    assert json.loads(said(results, tmp_path, "schema")[0]) == schema.schema()


def test_every_abrupt_end_has_status_2(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gc.freeze", lambda: None)
    last = {KeyboardInterrupt: r"interrupted\n", ZeroDivisionError: "(?s).*ZeroDivisionError\n", BrokenPipeError: ""}
    for trouble, words in last.items():
        with pytest.raises(SystemExit, match="2"):
            to_the_end(Mock(side_effect=trouble))
        assert re.fullmatch(words, capfd.readouterr().err)


def test_an_unreadable_run_hides_no_other(root: Path, results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    exists, closed = Path.exists, root / CLOSED

    def refused(path: Path, **options: bool) -> bool:
        if path.parent == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path, **options)

    monkeypatch.setattr(Path, "exists", refused)
    _, line, _ = said(results, root, "list")[0].splitlines()
    assert line == f"{closed.name}  damaged: {closed / 'run.json'}: Permission denied"
    assert "redis" in said(results, root, "show", "last")[0]
    said(results, root, "redraw", "last")
    assert "Permission denied" in (root / "index.html").read_text()


def test_a_missing_or_unreadable_folder_is_an_error_and_an_empty_one_is_not(tmp_path: Path, results: Results) -> None:
    assert said(results, tmp_path, "list")[0] == f"no runs in {tmp_path}\n"
    assert said(results, tmp_path, "list", "--json")[0] == ""
    none = tmp_path / "none"
    assert said(results, none, "list", status=2)[1] == f"results: {none}: there is no such folder\n"
    file = tmp_path / "file"
    file.write_text("")
    for words in (("list",), ("list", "--json"), ("show", "last")):
        assert said(results, file, *words, status=2) == ("", f"results: {file}: Not a directory\n")


@pytest.mark.parametrize("words", ["prune --keep -1", "prune --younger-than x", "serve --port 70000"])
def test_a_wrong_value_of_an_option_is_named_with_the_option(words: str, results: Results) -> None:
    name, option, number = words.split()
    status, _, errors = results(name, option, number)
    error = errors.splitlines()[-1]
    assert (status, number in error) == (2, True)
    assert error.startswith(f"Error: Invalid value for '{option}': ")
