"""Commands, packages and turns."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from infra.docker import machine
from infra.errors import Failed, NotPossible
from infra.tests.fakes import commands, rights, running


@pytest.fixture(autouse=True)
def _forget() -> None:
    for answer in (machine.may_install, machine.refresh_apt, machine.apt_settings, machine.debian_mirror):
        answer.cache_clear()


def test_a_command_that_fails_tells_its_last_words_and_one_that_is_not_there_says_so() -> None:
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
        machine.run(["sleep", "600.125"], timeout=0.2)
    assert not running("600.125")


def test_only_one_at_a_time_and_the_other_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        with machine.alone("a/b", waiting.set):
            order.append("second")

    with machine.alone("a/b", lambda: order.append("the first waited")):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


@pytest.mark.parametrize(
    ("lacking", "message"),
    [("apt", "neither Debian nor Ubuntu"), ("root", "sudo apt-get install debootstrap"), ("consent", "you said no")],
)
def test_packages_are_installed_by_root_only(monkeypatch: pytest.MonkeyPatch, lacking: str, message: str) -> None:
    called = commands(monkeypatch, {})
    rights(monkeypatch, **{lacking: False})
    with pytest.raises(NotPossible, match=message) as trouble:
        machine.install(["debootstrap"], print)
    assert trouble.value.status == 3
    assert not called.called


def test_a_failing_source_of_the_users_own_does_not_stop_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    called = commands(monkeypatch, {"apt-get update": Failed("no route"), "apt-get install": ""})
    rights(monkeypatch)
    machine.install(["debootstrap"], print)
    assert called.called[-1].endswith(" debootstrap")


def test_asks_only_on_a_terminal_and_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter(["n\n"])
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True, readline=lambda: next(answers)))
    monkeypatch.delenv("YES", raising=False)
    assert [machine.may_install(), machine.may_install()] == [False, False]
    machine.may_install.cache_clear()
    monkeypatch.setenv("YES", "1")
    assert machine.may_install()


def test_apt_settings_are_the_proxies_and_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [
        'Acquire::http::Proxy "http://proxy:3142";',
        'Acquire::https::Proxy::mirror.example "DIRECT";',
        'Acquire::Check-Valid-Until "false";',
    ]
    others = ['Acquire::http::Proxy-Auto-Detect "/usr/bin/detect";', 'APT::Architecture "amd64";', 'Acquire "";']
    commands(monkeypatch, {"apt-config dump": "\n".join(others + wanted)})
    rights(monkeypatch)
    assert machine.apt_settings() == wanted


@pytest.mark.parametrize(
    ("targets", "mirror"),
    [
        ("Debian|Debian-Security|http://a/s\nDebian|Debian|http://a/debian/\n", "http://a/debian/"),
        ("Ubuntu|Ubuntu|http://a/ubuntu/\n", None),
        ("Debian|Debian|cdrom:[x]/\n", None),
        ("", None),
    ],
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
