"""Commands, packages and turns. An engine is found, installed and started, but never a second one; clear errors."""

import os
import shutil
import threading
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock, Mock

import pytest

from checkers.tests.build import cases
from infra.docker import client, engine, machine
from infra.errors import Failed, NotPossible, Trouble
from infra.tests.fakes import HANGS_AFTER, LONG, Commands, commands, executable, rights, running

SILENT = Failed("docker version: Cannot connect to the Docker daemon at unix:///var/run/docker.sock")
ASK, COMPOSE = "docker version", "docker compose version"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Debian machine without Docker and systemd, on which we are root; returns its bin folder."""
    (bin_folder := tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{bin_folder}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(engine, "DAEMON_LOG", tmp_path / "dockerd.log")
    monkeypatch.setattr(engine, "_daemon", lambda: None)
    monkeypatch.setattr(engine, "_systemd", lambda: False)
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: which(name, path=str(bin_folder) if "docker" in name else None))
    rights(monkeypatch)
    monkeypatch.setattr(machine, "refresh_apt", lambda: None)
    return bin_folder


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, bare: Path) -> Commands:
    """The commands of the same machine, with an engine that is installed but not running."""
    executable(bare, "docker", "exit 1")
    executable(bare, "dockerd", "echo it cannot; exit 9")
    return commands(monkeypatch, {ASK: SILENT, "docker context show": "default\n", COMPOSE: Failed("unknown command")})


@cases(
    "said, state, why",
    ("26.1.5\n", "running", ""),
    (Failed("docker version: permission denied while trying to connect"), "refused", "socket refuses"),
    (SILENT, "stopped", "not running"),
)
def test_the_engine_state_follows_from_its_answer(called: Commands, said: str | Failed, state: str, why: str) -> None:
    called.answers[ASK] = said
    found = engine.find()
    assert (found.state, why in found.why) == (state, True)


@pytest.mark.usefixtures("bare")
def test_an_engine_is_absent_without_its_command_line() -> None:
    assert engine.find().state == "absent"


@cases(
    "host, context, says",
    ("tcp://build:2375", "default", "DOCKER_HOST=tcp://build:2375 does not answer"),
    ("", "colima", "the docker context colima does not answer"),
)
def test_an_engine_chosen_elsewhere_is_not_ours_to_start(
    called: Commands, monkeypatch: pytest.MonkeyPatch, host: str, context: str, says: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    called.answers["docker context show"] = f"{context}\n"
    with pytest.raises(NotPossible, match=says):
        engine.ensure()
    assert (called.ran("apt-get"), engine.DAEMON_LOG.exists()) == (False, False)


def test_no_second_daemon_is_started_beside_a_silent_one(called: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that is still starting is waited for."""
    called.answers[ASK] = Mock(side_effect=chain([SILENT] * 3, repeat("20.10.24\n")))
    monkeypatch.setattr(engine, "_daemon", lambda: 4711)
    said: list[str] = []
    with machine.heard_by(said.append):
        engine.ensure()
    assert "process 4711" in said[0]
    assert (called.ran("apt-get"), engine.DAEMON_LOG.exists()) == (False, False)


@pytest.mark.usefixtures("called")
@cases(
    "daemon, allowed, trouble, says",
    ("it is silent", 4711, {}, Failed, r"does not answer.*process 4711"),
    ("it dies", None, {}, Failed, "status 9: it cannot"),
    ("no root", None, {"root": False}, NotPossible, "not root"),
    ("no consent", None, {"consent": False}, NotPossible, "said no"),
    ("no apt", None, {"apt": False}, NotPossible, "install it"),
)
def test_an_engine_that_does_not_start_says_why(
    monkeypatch: pytest.MonkeyPatch, daemon: int | None, allowed: dict[str, bool], trouble: type[Trouble], says: str
) -> None:
    rights(monkeypatch, **allowed)
    monkeypatch.setattr(engine, "_daemon", lambda: daemon)
    monkeypatch.setattr(engine, "ENGINE_STARTS_WITHIN", 0.0 if daemon else 60.0)
    with pytest.raises(trouble, match=says):
        engine.ensure()


@cases("split, packages", ("1:28.5", "docker-cli docker.io iptables"), ("(none)", "docker.io iptables"))
def test_a_missing_engine_is_installed(monkeypatch: pytest.MonkeyPatch, bare: Path, split: str, packages: str) -> None:
    def installs(_: list[str]) -> str:
        executable(bare, "docker", "")
        # The daemon lives until the test has ended.
        running = f"{bare}/running"
        executable(bare, "dockerd", f"touch {running}; for _ in $(seq 600); do [ -e {running} ] && sleep 0.1; done")
        return ""

    def version(_: list[str]) -> str:
        if not (bare / "running").exists():
            raise SILENT
        return "28.5.2\n"

    said_at_once = {"docker context": "default\n", "apt-cache policy": f"docker-cli:\n  Candidate: {split}\n"}
    called = commands(monkeypatch, {ASK: version, "apt-get install": installs, **said_at_once})
    said: list[str] = []
    try:
        with machine.heard_by(said.append):
            engine.ensure()
    finally:
        (bare / "running").unlink(missing_ok=True)
    (line,) = [line for line in called.called if line.startswith("apt-get install")]
    assert line.endswith(f" {packages}")
    assert "28.5.2 is running" in said[-1]


def test_systemd_starts_the_engine_if_systemd_runs(called: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_systemd", lambda: True)
    called.answers["systemctl start docker"] = lambda _: str(called.answers.update({ASK: "26.1.5\n"}))
    engine.ensure()
    assert called.ran("systemctl start docker")
    assert not engine.DAEMON_LOG.exists()


def test_a_command_in_a_container_may_end_after_its_output() -> None:
    api = MagicMock(**{"exec_start.return_value": b"out"})
    api.exec_inspect.side_effect = [{"Running": True, "ExitCode": None}, {"Running": False, "ExitCode": 3}]
    assert client.execute(Mock(api=api), "redis1", ["true"]) == (3, "out")


def test_a_container_must_have_the_network_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "own_container", lambda _: {"HostConfig": {"NetworkMode": "bridge"}})
    with pytest.raises(NotPossible, match="docker run --network host"):
        client.needs_published(Mock())


@cases(
    "offered, chosen",
    ({"docker-compose-v2": "2.40.3", "docker-compose": "1.29.2-6"}, "docker-compose-v2"),
    ({"docker-compose-plugin": "2.29.1", "docker-compose": "1.29.2-6"}, "docker-compose-plugin"),
    ({"docker-compose": "2.26.1-4"}, "docker-compose"),
    ({"docker-compose": "1.29.2-3"}, None),
    ({}, None),
)
def test_compose_is_a_package_where_apt_has_version_2(
    called: Commands, monkeypatch: pytest.MonkeyPatch, offered: dict[str, str], chosen: str | None
) -> None:
    taken: list[str] = []

    def take(*packages: str) -> None:
        taken.extend(packages)
        called.answers[COMPOSE] = "2.26.1-4\n"

    monkeypatch.setattr(machine, "candidate", offered.get)
    monkeypatch.setattr(machine, "install", lambda packages: take(*packages))
    monkeypatch.setattr(engine, "_unpack_compose", lambda: take("unpacked"))
    engine.ensure_compose()
    assert taken == [chosen or "unpacked"]


def test_compose_that_is_there_is_left_alone(called: Commands) -> None:
    called.answers[COMPOSE] = "v2.26.1\n"
    engine.ensure_compose()
    assert engine.compose() == "2.26.1"
    assert not called.ran("apt")


@pytest.mark.usefixtures("called")
def test_compose_without_a_debian_mirror_is_for_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "candidate", lambda package: None)
    monkeypatch.setattr(machine, "debian_mirror", lambda: None)
    with pytest.raises(NotPossible, match="apt-get install docker-compose-v2"):
        engine.ensure_compose()


def test_no_room_is_said_before_a_build_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "room", lambda: 1.24)
    with pytest.raises(Failed, match=r"1\.2 GB free .* 3 GB"):
        engine.require_room()
    monkeypatch.setattr(engine, "room", lambda: None)
    engine.require_room()


def test_pid_files_of_a_killed_daemon_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = Path(Path("/proc/self/cmdline").read_bytes().split(b"\0")[0].decode()).name
    taken, gone, alive = (tmp_path / name for name in ("taken.pid", "gone.pid", "alive.pid"))
    for path, pid in ((taken, os.getpid()), (gone, 2**22 + 1), (alive, os.getpid())):
        path.write_text(f"{pid}\n")
    monkeypatch.setattr(engine, "PID_FILES", {taken: "dockerd", gone: "dockerd", alive: name})
    engine._forget_the_dead()
    assert [path.name for path in tmp_path.iterdir()] == ["alive.pid"]


@pytest.fixture(autouse=True)
def _forget() -> None:
    for answer in (machine.may_install, machine.refresh_apt, machine.apt_settings, machine.debian_mirror):
        answer.cache_clear()


def test_the_error_for_a_command_quotes_its_last_words_or_says_that_it_is_missing() -> None:
    with pytest.raises(Failed, match=r"sh -c .*: one \| two$"):
        machine.run(["sh", "-c", "echo one >&2; echo two >&2; exit 7"])
    with pytest.raises(Failed, match="No such file"):
        machine.run(["no-such-command-anywhere"])


def test_a_log_holds_all_that_was_said(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(Failed, match=f"four.*all of it: {log}"):
        machine.run(["sh", "-c", "echo one; echo two >&2; echo three; echo four; exit 1"], log=log)
    assert log.read_text() == "one\ntwo\nthree\nfour\n"


def test_a_command_that_hangs_is_ended() -> None:
    with pytest.raises(Failed, match="no end after"):
        machine.run(["sleep", LONG], timeout=0.2)
    assert not running(LONG)


def test_only_one_caller_has_the_turn_and_the_other_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        with machine.heard_by(lambda _: waiting.set()), machine.alone("a/b", "the second waits"):
            order.append("second")

    with machine.heard_by(order.append), machine.alone("a/b", "the first waits"):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(HANGS_AFTER)
        order.append("first")
    thread.join(HANGS_AFTER)
    assert order == ["first", "second"]


@pytest.mark.parametrize(
    ("lacking", "message"),
    [("apt", "neither Debian nor Ubuntu"), ("root", "sudo apt-get install debootstrap"), ("consent", "you said no")],
)
def test_packages_are_installed_by_root_only(monkeypatch: pytest.MonkeyPatch, lacking: str, message: str) -> None:
    called = commands(monkeypatch, {})
    rights(monkeypatch, **{lacking: False})
    with pytest.raises(NotPossible, match=message) as trouble:
        machine.install(["debootstrap"])
    assert (trouble.value.status, called.called) == (3, [])


def test_a_failing_source_of_the_users_own_does_not_stop_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    called = commands(monkeypatch, {"apt-get update": Failed("no route"), "apt-get install": ""})
    rights(monkeypatch)
    machine.install(["debootstrap"])
    assert called.called[-1].endswith(" debootstrap")


def test_consent_is_asked_for_only_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True, readline=iter(["n\n"]).__next__))
    monkeypatch.delenv("YES", raising=False)
    assert [machine.may_install(), machine.may_install()] == [False, False]
    machine.may_install.cache_clear()
    monkeypatch.setenv("YES", "1")
    assert machine.may_install()


def test_apt_settings_are_the_proxies_and_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ['Acquire::http::Proxy "http://proxy:3142";', 'Acquire::https::Proxy::mirror.example "DIRECT";']
    wanted.append('Acquire::Check-Valid-Until "false";')
    others = ['Acquire::http::Proxy-Auto-Detect "/usr/bin/detect";', 'APT::Architecture "amd64";', 'Acquire "";']
    commands(monkeypatch, {"apt-config dump": "\n".join(others + wanted)})
    rights(monkeypatch)
    assert machine.apt_settings() == wanted


@cases(
    "targets, mirror",
    ("Debian|Debian-Security|http://a/s\nDebian|Debian|http://a/debian/\n", "http://a/debian/"),
    ("Ubuntu|Ubuntu|http://a/ubuntu/\n", None),
    ("Debian|Debian|cdrom:[x]/\n", None),
    ("", None),
)
def test_the_mirror_of_this_machine_is_used(monkeypatch: pytest.MonkeyPatch, targets: str, mirror: str | None) -> None:
    commands(monkeypatch, {"apt-get indextargets": targets})
    rights(monkeypatch)
    assert machine.debian_mirror() == mirror


def test_candidate_has_no_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "apt-cache policy a": "a:\n  Installed: (none)\n  Candidate: 5:8.0.2-3\n  Version table:\n",
        "apt-cache policy b": "b:\n  Installed: (none)\n  Candidate: (none)\n",
        "apt-cache policy c": "",
        "apt-cache policy d": "d:\n  Candidate: 1.29.2-3\n",
    }
    commands(monkeypatch, answers)
    assert [machine.candidate(name) for name in "abcd"] == ["8.0.2-3", None, None, "1.29.2-3"]
