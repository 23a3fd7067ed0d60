"""What `doctor` finds, says and repairs, and what it needs itself."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from checkers.tests.build import cases
from infra import __main__ as command
from infra.docker import base, doctor, engine, images, machine
from infra.docker.doctor import Check
from infra.errors import Failed, NotPossible, Trouble
from infra.tests.fakes import HANGS_AFTER, rights

LOCK = """\
# made by make lock
pytest==9.2.0 \\
    --hash=sha256:00
    # via fencepost
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:11
numpy==2.5.5 ; python_full_version >= '3.12' \\
    --hash=sha256:22
pywin32==312 ; sys_platform == 'win32' \\
    --hash=sha256:33
no-such-package==1.0 \\
    --hash=sha256:44
"""


@pytest.fixture
def well(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine that has everything; returns what was repaired, in order."""
    done: list[str] = []
    monkeypatch.setattr(doctor, "check_dependencies", lambda: Check("dependencies", "ok", "all"))
    monkeypatch.setattr(doctor, "install_dependencies", lambda: done.append("dependencies"))
    monkeypatch.setattr(engine, "find", lambda: engine.Engine("running", "26.1.5"))
    monkeypatch.setattr(engine, "ensure", lambda: done.append("engine"))
    monkeypatch.setattr(engine, "compose", lambda: "2.26.1")
    monkeypatch.setattr(engine, "ensure_compose", lambda: done.append("compose"))
    monkeypatch.setattr(engine, "room", lambda: 50.0)
    monkeypatch.setattr(base, "image_id", lambda name: "sha256:1")
    monkeypatch.setattr(base, "ensure", lambda suite: done.append(f"base:{suite}"))
    monkeypatch.setattr(images, "is_current", lambda image: True)
    monkeypatch.setattr(images, "ensure", lambda image: done.append(image.recipe))
    monkeypatch.setattr(doctor, "check_browser", lambda: Check("browser", "ok", "/usr/bin/chromium", needed=False))
    monkeypatch.setattr(doctor, "install_browser", lambda: done.append("browser"))
    return done


def test_a_lock_file_is_read_without_its_markers() -> None:
    assert list(doctor.locked(LOCK)) == [
        ("pytest", {"9.2.0"}, True),
        ("numpy", {"2.4.6", "2.5.5"}, False),
        ("pywin32", {"312"}, False),
        ("no-such-package", {"1.0"}, True),
    ]


def test_our_own_lock_file_is_read_whole_and_names_no_registry() -> None:
    lock = doctor.LOCK.read_text()
    names = {name for name, _, _ in doctor.locked(lock)}
    assert {"etcd3", "protobuf", "tenacity", "setuptools", "pytest", "numpy"} <= names
    assert len(names) > 40
    assert "://" not in lock


@cases(
    "lock, state, why",
    (LOCK, "broken", "1 missing (no-such-package)"),
    ("pytest==1.0 \\\n", "broken", "instead of 1.0"),
    ("no-such-package==1.0 \\\n", "missing", "none"),
    ("pywin32==312 ; sys_platform == 'win32' \\\npytest==PYTEST \\\n", "ok", "1 as locked"),
)
def test_dependencies_are_checked_against_the_lock_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: str, state: str, why: str
) -> None:
    path = tmp_path / "lock"
    path.write_text(lock.replace("PYTEST", pytest.__version__))
    monkeypatch.setattr(doctor, "LOCK", path)
    check = doctor.check_dependencies()
    assert (check.state, why in check.why) == (state, True)


def test_on_a_well_machine_nothing_is_repaired(well: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert {check.state for check in doctor.checks()} == {"ok"}
    assert command.main(["doctor"]) == 0
    capsys.readouterr()
    assert (command.main(["doctor", "--fix"]), well) == (0, [])
    assert capsys.readouterr().out == ""


def test_doctor_repairs_in_the_order_of_need(well: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "find", lambda: engine.Engine("absent", why="not installed"))
    monkeypatch.setattr(engine, "compose", lambda: None)
    monkeypatch.setattr(images, "is_current", lambda image: False)
    monkeypatch.setattr(doctor, "check_dependencies", lambda: Check("dependencies", "missing", "none"))
    doctor.fix()
    assert well[:4] == ["dependencies", "engine", "compose", "base:trixie"]
    assert set(well[4:]) == {"redis", "toxiproxy", "postgres"}
    well.clear()
    doctor.fix(everything=True, image=True)
    assert set(well[4:]) == {"redis", "toxiproxy", "postgres", "zookeeper", "etcd", "pgbouncer", "fencepost"}


@pytest.mark.usefixtures("well")
def test_an_optional_image_may_be_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(images, "is_current", lambda image: image.recipe != "etcd")
    monkeypatch.setattr(base, "image_id", lambda name: None if "etcd" in name else "sha256:1")
    assert command.main(["doctor"]) == 0
    assert "later    image etcd" in capsys.readouterr().out
    monkeypatch.setattr(images, "is_current", lambda image: image.recipe != "redis")
    assert command.main(["doctor"]) == 1
    assert "broken   image redis" in capsys.readouterr().out


def test_a_browser_is_needed_for_tests_only(
    well: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "check_browser", lambda: Check("browser", "missing", "no chromium", needed=False))
    assert command.main(["doctor"]) == 0
    assert "later    browser" in capsys.readouterr().out
    assert (command.main(["doctor", "--fix"]), well) == (0, [])
    assert (command.main(["doctor", "--fix", "--tests"]), well) == (0, ["browser"])


def test_a_browser_on_the_path_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    have = {"google-chrome": "/opt/chrome"}
    monkeypatch.setattr("shutil.which", have.get)
    assert (doctor.check_browser().state, doctor.check_browser().why) == ("ok", "/opt/chrome")
    have.clear()
    assert (doctor.check_browser().state, doctor.check_browser().hurts) == ("missing", False)


@cases(
    "allowed, version, why",
    ("may", {}, "150", None),
    ("unknown", {}, None, "apt here knows none"),
    ("not-root", {"root": False}, "150", "not root: sudo apt-get install chromium-headless-shell fonts-dejavu-core"),
    ("no-apt", {"apt": False}, None, "neither Debian nor Ubuntu"),
)
def test_a_browser_is_installed_where_we_may(
    monkeypatch: pytest.MonkeyPatch, allowed: dict[str, bool], version: str | None, why: str | None
) -> None:
    ran: list[Sequence[str]] = []
    said: list[str] = []
    rights(monkeypatch, **allowed)
    monkeypatch.setattr(machine, "refresh_apt", lambda: None)
    monkeypatch.setattr(machine, "candidate", lambda package: version)
    monkeypatch.setattr(machine, "run", lambda argv, **_: ran.append(argv))
    with machine.heard_by(said.append):
        doctor.install_browser()
    if why is None:
        (argv,) = ran
        assert {"install", "--no-install-recommends", *doctor.BROWSER} <= set(argv)
    else:
        (line,) = said
        assert (ran, line.partition(": ")[0]) == ([], "tests of pages in a browser will be skipped")
        assert why in line


@pytest.mark.usefixtures("well")
@pytest.mark.parametrize("state", ["absent", "stopped", "refused"])
def test_without_an_engine_a_fix_is_given_and_images_are_missing(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    monkeypatch.setattr(engine, "find", lambda: engine.Engine(state, why="because"))  # type: ignore[arg-type]
    found = {check.name: check for check in doctor.checks()}
    check = found["engine"]
    assert (check.hurts, check.why, bool(check.fix)) == (True, "because", True)
    assert found["images"].state == "missing"


def test_little_room_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "room", lambda: 2.0)
    check = doctor.check_disk()
    assert (check.hurts, check.why) == (True, "2.0 GB free where Docker keeps its images")


@pytest.mark.usefixtures("well")
@pytest.mark.parametrize(("trouble", "status"), [(NotPossible("no rights"), 3), (Failed("apt fell over"), 1)])
def test_the_exit_status_says_whether_a_repair_failed_or_was_not_possible(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], trouble: Trouble, status: int
) -> None:
    monkeypatch.setattr(engine, "find", lambda: engine.Engine("absent", why="not installed"))
    monkeypatch.setattr(engine, "ensure", Mock(side_effect=trouble))
    assert command.main(["doctor", "--fix"]) == status
    said = capsys.readouterr()
    assert "missing  engine" in said.out
    assert said.err == f"fencepost: {trouble}\n"


@pytest.mark.parametrize(
    "argv", ["--help", "", "doktor", "doctor --all", "doctor --tests", "doctor --image", "doctor --no", "doctor more"]
)
def test_bad_arguments_end_with_status_2_and_help_ends_with_0(argv: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(argv.split()) == (0 if argv == "--help" else 2)
    said = capsys.readouterr()
    assert argv.startswith("doctor ") or "doctor" in said.out + said.err


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_no_color_turns_off_terminal_colours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], no_color: str, coloured: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", no_color)
    doctor.show([Check("disk", "ok", "50 GB free")])
    assert ("\x1b[" in capsys.readouterr().out) is coloured


def test_doctor_needs_only_the_standard_library() -> None:
    script = "import infra.docker.doctor; print(infra.docker.doctor.check_dependencies().state)"
    # -S: no site-packages at all; -E: no PYTHONPATH that would bring them back.
    run = [sys.executable, "-S", "-E", "-c", script]
    done = subprocess.run(run, cwd=doctor.ROOT, capture_output=True, check=False, text=True, timeout=HANGS_AFTER)
    assert done.stdout == "missing\n", done.stderr
