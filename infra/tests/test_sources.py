"""Where versions come from: what is asked, how often, and what becomes of it when nobody answers."""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from infra.docker import base, machine, sources
from infra.errors import Failed
from infra.tests.fakes import Commands, commands

POLICY = """\
redis-server:
  Installed: (none)
  Candidate: 5:8.0.2-3+deb13u1
  Version table:
     5:8.0.2-3+deb13u1 500
        500 http://mirror.example/debian trixie/main amd64 Packages
valkey-server:
  Installed: (none)
  Candidate: (none)
  Version table:
postgresql:
  Installed: (none)
  Candidate: 17+278
postgresql-17:
  Installed: (none)
  Candidate: 17.11-0+deb13u1
debconf:
  Installed: 1.5.91
  Candidate: 1.5.91
etcd-server:
  Installed: (none)
  Candidate: 3.6.0~rc.1-1
"""


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sources, "_known", {})
    monkeypatch.setattr(machine, "apt_settings", list)
    monkeypatch.setattr(machine, "debian_mirror", lambda: "http://mirror.example/debian")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith("GO"):
            monkeypatch.delenv(name)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Has all bases, and answers as apt does."""
    return commands(monkeypatch, {"docker image ls": "sha256:base\n", "docker run": POLICY})


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """As another process, so much later."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + seconds)
    monkeypatch.setattr(sources, "_known", {})


@pytest.mark.parametrize(
    ("debian", "own"),
    [
        ("5:8.0.2-3+deb13u1", "8.0.2"),
        ("3.5.16-4+b3", "3.5.16"),
        ("3.8.0+dfsg-2", "3.8.0"),
        ("8.1.1+dfsg1-3+deb13u2", "8.1.1"),
        ("17.11-0+deb13u1", "17.11"),
        ("2.0", "2.0"),
    ],
)
def test_upstream_version(debian: str, own: str) -> None:
    assert sources.upstream(debian) == own


class TestSuites:
    @pytest.mark.parametrize(
        ("suite", "asked_in", "mirror"),
        [("bookworm", "bookworm", ""), ("sid", "trixie", "http://mirror.example/debian")],
    )
    def test_apt_is_asked_in_the_suites_own_base_or_in_the_default_one(
        self, engine: Commands, suite: str, asked_in: str, mirror: str
    ) -> None:
        assert sources.ask(suite) == {"redis": ["8.0.2"], "postgres": ["17.11"]}
        (run,) = [line for line in engine.called if line.startswith("docker run")]
        assert f" MIRROR={mirror} --env SUITE={suite} {base.name(asked_in)} sh " in run
        assert {word for line in engine.called for word in line.split() if "/base:" in word} == {base.name(asked_in)}

    def test_nobody_is_asked_twice_a_day(self, engine: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
        had = sources.ask("sid")
        asked = len(engine.called)
        assert sources.ask("sid") == had
        later(monkeypatch, 80000)
        assert sources.ask("sid") == had
        assert len(engine.called) == asked
        sources.forget("sid")
        sources.ask("sid")
        assert len(engine.called) == 2 * asked
        later(monkeypatch, 90000)
        sources.ask("sid")
        assert len(engine.called) == 3 * asked

    def test_a_run_keeps_the_answer_it_got(self, engine: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
        had = sources.ask("sid")
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 200000)
        engine.answers["docker run"] = POLICY.replace("17.11", "17.12")
        assert sources.ask("sid") == had

    def test_in_silence_the_last_answer_counts(self, engine: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
        had = sources.ask("sid")
        later(monkeypatch, 200000)
        engine.answers["docker run"] = Failed("docker run: no route to host")
        with pytest.raises(Failed, match="no route"):
            sources.ask("sid")
        said: list[str] = []
        assert sources.ask_or_recall("sid", said.append) == had
        assert "no route to host): taking what it had on 2" in said[-1]
        with pytest.raises(Failed, match="no route"):
            sources.ask_or_recall("trixie")  # which never answered

    def test_an_answer_without_any_server_is_none(self, engine: Commands) -> None:
        engine.answers["docker run"] = ""
        with pytest.raises(Failed, match="no server of Debian sid"):
            sources.ask("sid")


class Proxy(BaseHTTPRequestHandler):
    """Of Go modules."""

    def do_GET(self) -> None:
        good = self.path == "/good/go.etcd.io/etcd/server/v3/@v/list"
        self.send_response(200 if good else 404)
        self.end_headers()
        self.wfile.write(b"v3.5.0-alpha.0\nv3.5.9\nv3.6.0\nv3.5.10\n" if good else b"")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def proxy() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class TestModules:
    def test_releases_come_newest_first_and_of_each_proxy(self, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GOPROXY", f"{proxy}/bad|{proxy}/good/,direct")
        assert sources.ask("modules") == {"etcd": ["3.6.0", "3.5.10", "3.5.9"]}
        monkeypatch.setattr(sources, "_known", {})
        monkeypatch.setenv("GOPROXY", "off")
        with pytest.raises(Failed, match="GOPROXY, which names the module proxy, names none"):
            sources.ask_or_recall("modules")

    def test_what_is_said_of_a_silent_source_has_no_password(self, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GOPROXY", proxy.replace("//", "//user:secret@"))
        with pytest.raises(Failed, match="no list of etcd's versions: HTTPError") as failed:
            sources.ask("modules")
        assert "secret" not in str(failed.value)
