"""`fencepost` has the commands of all rooms, in a wheel too. Help is no failure. `repeat` works on a small project."""

import importlib
import inspect
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import click
import pytest
from click.shell_completion import ShellComplete

from infra.__main__ import main as infra
from infra.backends import BACKENDS
from suites.__main__ import main as suites
from suites.commands import nightly, repeat
from suites.commands.fencepost import COMPLETE, fencepost, main
from suites.lanes import validate_declarations
from suites.tests.bench import ENDS
from suites.worker.pool import ROOT

PACKAGES = {"infra": "infra", "results": "results.commands", "suites": "suites.commands"}
RECORDED = next((ROOT / "results/tests/formats/2").rglob("*late-write*/*unfenced*.arrow"))
MAKEFILE = """
certify:
\t@mkdir -p results/runs/r/trials/a results/runs/r/trials/b
\t@touch results/runs/r/trials/a/verdicts.json results/runs/r/trials/b/verdicts.json
\t@case "$(ARGS)" in *" 3"*) echo "1 failed, 9 passed"; exit 1;; *) echo "10 passed, 3 skipped";; esac
test:
\t@echo "500 passed"
"""


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


LATE = {name: command for name, command in leaves(fencepost) if isinstance(command.callback, partial)}


@pytest.mark.parametrize("name", LATE)
def test_a_command_that_is_loaded_late_exists_and_takes_its_options(name: str) -> None:
    command = LATE[name]
    assert isinstance(command.callback, partial)
    where, *given = command.callback.args
    module, _, function = where.partition(":")
    room = command.callback.func.__module__.partition(".")[0]
    called = getattr(importlib.import_module(f"{PACKAGES[room]}.{module}"), function or "main")
    options = {str(param.name): None for param in command.params}
    if given:  # a command of `nightly`
        night = inspect.signature(nightly._night).parameters
        assert set(night) <= set(options)
        own: Callable[..., object] = getattr(nightly, f"_{given[0]}")
        called, options = partial(own, None), {key: None for key in options if key not in night}
    inspect.signature(called).bind(**options)


def test_fencepost_has_every_command_with_help_and_suggests_a_close_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"certify", "upgrade", "check", "doctor", "up", "cut", "results list", "lock new", "suites nightly run"} <= {
        name for name, _ in leaves(fencepost)
    }
    for name, command in leaves(fencepost):
        assert main([*name.split(), "--help"]) == 0
        assert command.help
        assert f"Usage: fencepost {name} " in capsys.readouterr().out
    assert main(["certfy"]) == 2
    assert "Did you mean 'certify'?" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_completion_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert f"{COMPLETE}={shell}_complete" in capsys.readouterr().out
    offered = ShellComplete(fencepost, {}, "fencepost", COMPLETE).get_completions(["results"], "s")
    assert [each.value for each in offered] == ["schema", "scorecard", "serve", "show"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_new_lock_can_be_tried_as_it_is(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"our_{backend}_lock"
    assert main(["lock", "new", name, "--backend", backend]) == 0
    lock = validate_declarations.lock(capsys.readouterr().out.partition("--lock ")[2].split()[0])
    assert (lock.backend, lock.__name__) == (backend, f"Our{backend.capitalize()}Lock")
    before = (tmp_path / f"{name}.py").read_text()
    assert main(["lock", "new", name, "--backend", backend]) == 1, "what is there is not overwritten"
    assert (tmp_path / f"{name}.py").read_text() == before
    assert main(["lock", "new", "../there", "--backend", backend]) == 2


def test_certify_and_upgrade_are_runs_of_pytest_with_its_own_options() -> None:
    for words, given in (
        (["certify", "--lock", "redis", "-kexpr", "-n2"], ["--lock", "redis", "-kexpr", "-n2"]),
        (["upgrade", "etcd=3.4", "etcd=3.5", "-x"], ["--from", "etcd=3.4", "--to", "etcd=3.5", "-x"]),
    ):
        with patch("pytest.main", return_value=5) as called:
            assert (main(words), called.call_args.args[0][1:]) == (5, given)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(sys.modules, "infra.commands", raising=False)
    monkeypatch.setitem(sys.modules, "docker", None)
    assert main(["status"]) == 3
    assert capsys.readouterr().err.startswith("fencepost: docker is missing; with all that runs locks: pip install")


def test_an_installed_wheel_works_without_the_checkout(tmp_path: Path) -> None:
    def run(*command: object, status: int = 0) -> str:
        words, env = [*map(str, command)], {**os.environ, "PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=ENDS)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "runs", "tests"))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    run(*pip, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", tmp_path, source)
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    (wheel,) = tmp_path.glob("*.whl")
    python = tmp_path / "venv/bin/python"
    run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "beside.pth").write_text(sysconfig.get_path("purelib"))
    for name in ("docker-compose.yml", "published.yml", "images/redis/Dockerfile"):
        assert (site / "infra" / name).read_bytes() == (ROOT / "infra" / name).read_bytes()
    assert os.access(site / "infra/images/tools/fill.sh", os.X_OK), "as the digest of an image has it"
    script = tmp_path / "venv/bin/fencepost"
    assert "certify" in run(script, "--help")
    assert "holder-exclusion" in run(script, "check", RECORDED, status=1)
    run(script, "lock", "new", "mine", "--backend", "redis")
    words = ("--lock", "mine.py:Mine", "--faults", "none", "--collect-only", "-q")
    assert "[mine.py:Mine/" in run(script, "certify", *words)
    assert "no runs in results/runs" in run(script, "results", "list")
    told = "from infra.suggestions import command; from results.text import command_line; print(command('up'), "
    told += f"command_line('pytest', '-p', 'x', '{site}/suites', '-y'))"
    assert run(python, "-c", told) == "fencepost up fencepost certify -y\n"
    assert "state='ok'" in run(python, "-c", "from infra.docker import doctor; print(doctor.check_dependencies())")
    left = {path.name for path in tmp_path.iterdir() if path.suffix not in (".py", ".whl")}
    assert left - {"__pycache__"} == {"source", "venv"}


def called(room: str, *before: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Ask a room for help. before: words of the shell that starts it."""
    command = [*before, sys.executable, "-m", room, "--help"]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    return subprocess.run(
        command, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=ENDS, env=environment
    )


@pytest.mark.parametrize(("room", "status"), [("suites", 2), ("infra", 1), ("checkers", 2), ("results", 2)])
def test_help_is_printed_and_a_closed_pipe_makes_no_traceback(room: str, status: int) -> None:
    told = called(room)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith(f"Usage: python -m {room} ")
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "wb"):
        gone = called(room, stdout=writes)
    assert (gone.returncode, gone.stderr) == (status, "")


@pytest.mark.parametrize("room", ["checkers", "results"])
def test_an_output_that_was_closed_is_no_failure(room: str) -> None:
    none = called(room, "sh", "-c", 'exec "$@" >&-', "sh")
    assert (none.returncode, none.stderr) == (0, "")


@pytest.mark.parametrize("main", [infra, suites], ids=["infra", "suites"])
def test_h_shows_help_and_bad_options_are_refused(main: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-h"]) == 0
    capsys.readouterr()
    assert main(["--halp"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "'--halp'" in told.err


def test_a_command_that_is_interrupted_says_so_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with patch("suites.commands.soak.main", side_effect=KeyboardInterrupt):
        assert suites(["soak"]) == 2
    assert capsys.readouterr().err == "soak: interrupted\n"


@pytest.fixture
def commit(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> str:
    """The only commit of a project, in which the third run of `make certify` is red."""
    (tmp_path / "results").mkdir()
    (tmp_path / "Makefile").write_text(MAKEFILE)
    monkeypatch.setattr(repeat, "ROOT", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("clones")))
    monkeypatch.setattr(repeat, "NOTED", tmp_path / "results" / "repeated.jsonl")
    author = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    for words in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "-m", "all"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=tmp_path, text=True).strip()


def test_repeat_goes_on_where_it_stopped_and_ends_at_a_red_run(commit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert repeat.main("certify", 2) == 0
    runs = [(run.seed, run.busy, run.status, run.trials, run.judged) for run in repeat.noted()]
    assert runs == [(1, os.cpu_count(), 0, 2, 10), (2, 0, 0, 2, 10)]
    assert repeat.in_words("certify", repeat.green_in_a_row("certify")) == (
        f"make certify: 2 green in a row at {commit[:12]} (4 trials, 20 judgements), so with 95 % confidence "
        "fewer than 78% of runs and 15% of judgements are red without cause"
    )
    with patch.object(shutil, "rmtree", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        repeat.main("test", 1)
    assert "1 green in a row at" in repeat.in_words("test", repeat.green_in_a_row("test"))
    assert repeat.main("certify", 3) == 1
    log = capsys.readouterr().out.splitlines()[-1].rpartition(": ")[2]
    assert "1 failed, 9 passed" in Path(log).read_text(), "the clone of a red run stays"
    assert repeat.green_in_a_row("certify") == repeat.green_in_a_row("test") == [], "both rest on what mends it"
    assert repeat.main("certify", 1) == 0, "and the count begins again"
