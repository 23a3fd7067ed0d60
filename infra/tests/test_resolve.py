"""Where versions come from, how often a source is asked, which image a version means, what `versions` offers."""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from checkers.tests.build import cases
from infra.docker import base, images, machine, sources
from infra.docker.images import Image, UnknownVersion, resolve, spelled
from infra.errors import Failed, NotPossible, UnknownName
from infra.tests.fakes import Commands, commands

HAD = {
    "trixie": {"redis": ["8.0.2"], "valkey": ["8.1.1"], "etcd": ["3.5.16"], "postgres": ["17.11"]},
    "bookworm": {"redis": ["7.0.15"], "etcd": ["3.4.23"], "postgres": ["15.18"]},
    "sid": {"redis": ["8.0.6"], "valkey": ["9.1.2"], "etcd": ["3.5.30"], "postgres": ["18.6"]},
    "modules": {"etcd": ["3.7.3", "3.7.2", "3.6.16", "3.6.0", "3.5.30", "3.5.16", "3.5.9", "3.5.0"]},
    "maven": {"zookeeper": ["3.9.2", "3.8.4", "3.7.2"], "postgres": ["18.4", "16.4", "16.3", "15.17"]},
}
POLICY = """\
redis-server:
  Installed: (none)
  Candidate: 5:8.0.2-3+deb13u1
  Version table:
     5:8.0.2-3+deb13u1 500
        500 http://mirror.example/debian trixie/main amd64 Packages
valkey-server:
  Candidate: (none)
postgresql:
  Candidate: 17+278
postgresql-17:
  Candidate: 17.11-0+deb13u1
debconf:
  Candidate: 1.5.91
etcd-server:
  Candidate: 3.6.0~rc.1-1
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that were asked. A source that is not in HAD does not answer. No image is built yet."""
    asked: list[str] = []

    def answer(source: str) -> sources.Had:
        asked.append(source)
        if source not in HAD:
            raise Failed(f"{source} is away")
        return HAD[source]

    monkeypatch.setattr(sources, "ask", answer)
    monkeypatch.setattr(sources, "ask_or_recall", answer)
    monkeypatch.setattr(images, "is_current", lambda image: False)
    return asked


@cases(
    "backend, version, image, sources_asked",
    # A stable suite has its series for life: no source is asked.
    ("etcd", None, "etcd etcd:trixie trixie None", ""), ("etcd", "3", "etcd etcd:trixie trixie None", ""),
    ("etcd", "3.4", "etcd etcd:bookworm bookworm None", ""), ("redis", "7", "redis redis:bookworm bookworm None", ""),
    ("toxiproxy", None, "toxiproxy toxiproxy:2.12.0 trixie 2.12.0", ""),
    ("toxiproxy", "2.12.0", "toxiproxy toxiproxy:2.12.0 trixie 2.12.0", ""),
    ("redis", "image:my/redis:unstable", "redis /my/redis:unstable None None", ""),
    ("redis", "valkey:8", "valkey valkey:trixie trixie None", ""),
    ("redis", "valkey:image:my/valkey", "valkey /my/valkey None None", ""),
    # An exact version. A stable suite of another series is not asked.
    ("etcd", "3.4.23", "etcd etcd:3.4.23 bookworm 3.4.23", "bookworm"),
    ("etcd", "3.5.16", "etcd etcd:3.5.16 trixie 3.5.16", "trixie"),
    ("redis", "valkey:9.1.2", "valkey valkey:9.1.2 sid 9.1.2", "sid"),
    ("etcd", "3.5.30", "etcd etcd:3.5.30 sid 3.5.30", "trixie sid"),
    ("etcd", "3.5.9", "etcd-modules etcd:3.5.9 trixie 3.5.9", "trixie sid modules"),
    ("etcd", "3.6.0", "etcd-modules etcd:3.6.0 trixie 3.6.0", "sid modules"),
    ("zookeeper", "3.8.4", "zookeeper-maven zookeeper:3.8.4 trixie 3.8.4", "bookworm sid maven"),
    ("postgres", "15.17", "postgres-maven postgres:15.17 trixie 15.17", "bookworm sid maven"),
    ("postgres", "18.4", "postgres-maven postgres:18.4 sid 18.4", "sid maven"),  # trixie's pg_dumpall does not read it
    # The newest of a series that no stable suite has.
    ("zookeeper", "3.7", "zookeeper-maven zookeeper:3.7.2 trixie 3.7.2", "sid maven"),
    ("postgres", "18", "postgres postgres:18.6 sid 18.6", "sid"),
    ("postgres", "16", "postgres-maven postgres:16.4 trixie 16.4", "sid maven"),
    ("etcd", "3.6", "etcd-modules etcd:3.6.16 trixie 3.6.16", "sid modules"),
)  # fmt: skip
def test_a_version_gives_its_image_and_asks_only_the_sources_that_it_needs(
    asked: list[str], backend: str, version: str | None, image: str, sources_asked: str
) -> None:
    """image: its recipe, name (/NAME: not fencepost/NAME), suite and exact version."""
    made = resolve(backend, version)
    assert f"{made.recipe} /{made.name} {made.suite} {made.version}".replace("/fencepost/", "") == image
    assert asked == sources_asked.split()


@cases(
    "pair, backend, version",
    ("etcd=3.4", "etcd", "3.4"), ("etcd=image:a=b", "etcd", "image:a=b"), ("valkey=8", "redis", "valkey:8"),
    ("redis=valkey:8", "redis", "valkey:8"), ("valkey=", "redis", ""), ("valkey", "redis", ""),
    ("nope=1", "nope", "1"),
)  # fmt: skip
def test_a_pair_of_backend_and_version_is_parsed(pair: str, backend: str, version: str) -> None:
    assert spelled(pair) == (backend, version)


@pytest.mark.usefixtures("asked")
@cases(
    "backend, version, there_is",
    ("etcd", "3.5.15", ["3.5.16 (Debian trixie)", "3.4 (Debian bookworm)", "3.5.30 (Debian sid)"]),
    ("etcd", "3.5.15", [" 3.5.30, 3.5.16, 3.5.9, 3.5.0 (Go module proxy)"]),
    ("etcd", "3.8", ["3.5 (Debian trixie)", " 3.7.3, 3.6.16, 3.5.30 (Go module proxy)"]),
    ("redis", "8.0.5", ["8.0.2 (Debian trixie)", "7.0 (Debian bookworm)", "8.0.6 (Debian sid)"]),
    ("zookeeper", "4", ["3.9 (Debian trixie)", "none (Debian sid)", "3.9.2, 3.8.4, 3.7.2 (Maven)"]),
    ("redis", "valkey:7", ["8.1 (Debian trixie)", "9.1.2 (Debian sid)"]), ("toxiproxy", "2.5", ["2.12.0"]),
    ("redis", "valkey:", ["8.1 (Debian trixie)", "python -m infra versions"]), ("etcd", "35", ["3.5 (Debian trixie)"]),
    ("etcd", "3.55", ["3.5 (Debian trixie)"]), ("etcd", "", ["3.5 (Debian trixie)"]),
    ("redis", "latest", ["8.0 (Debian trixie)", "7.0 (Debian bookworm)"]),
)  # fmt: skip
def test_the_error_for_an_unknown_version_lists_known_versions(backend: str, version: str, there_is: list[str]) -> None:
    with pytest.raises(UnknownVersion) as unknown:
        resolve(backend, version)
    assert unknown.value.status == 2
    what = version.replace(":", " ") if ":" in version else f"{backend} {version}"
    assert [word for word in [what, *there_is] if word not in str(unknown.value)] == []
    assert "\n" not in str(unknown.value)


def test_a_malformed_version_is_refused_without_asking_a_source(asked: list[str]) -> None:
    for version in ("latest", "", "3.5.x", "sid", "3..5", "-3"):
        with pytest.raises(UnknownVersion):
            resolve("etcd", version)
    assert not asked


def test_a_silent_source_is_reported_and_others_are_asked(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(HAD, "sid")
    assert (resolve("etcd", "3.7").name, asked) == ("fencepost/etcd:3.7.3", ["sid", "modules"])
    with pytest.raises(UnknownVersion, match="could not be asked: sid is away"):
        resolve("postgres", "19")


@pytest.mark.parametrize("backend", ["mysql", "valkey"])
def test_the_error_for_an_unknown_backend_lists_the_backends(backend: str) -> None:
    with pytest.raises(UnknownName, match=f"'{backend}'; there are redis, zookeeper, etcd, postgres"):
        resolve(backend)


def test_an_exact_version_that_is_built_asks_nobody(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "is_current", lambda image: image.version == "3.4.20")
    assert resolve("etcd", "3.4.20").suite == "bookworm"
    monkeypatch.setattr(images, "is_current", lambda image: image.suite == "sid")
    assert resolve("redis", "8.0.5") == Image("redis", "fencepost/redis:8.0.5", "sid", "8.0.5")  # gone from sid since
    assert not asked


def test_each_version_is_offered_once_where_it_is_looked_for_first() -> None:
    there = [offer for offer in sources.offers(HAD) if offer.server in ("redis", "valkey", "etcd")]
    assert [f"{offer.server} {offer.version} {offer.source} {offer.series}".strip() for offer in there] == [
        "redis 8.0.2 trixie 8.0", "redis 7.0.15 bookworm 7.0", "redis 8.0.6 sid",
        "valkey 8.1.1 trixie 8.1", "valkey 9.1.2 sid 9.1",
        "etcd 3.5.16 trixie 3.5", "etcd 3.4.23 bookworm 3.4", "etcd 3.5.30 sid",
        "etcd 3.7.3 modules 3.7", "etcd 3.7.2 modules", "etcd 3.6.16 modules 3.6",
        "etcd 3.6.0 modules", "etcd 3.5.9 modules", "etcd 3.5.0 modules",
    ]  # fmt: skip


@pytest.mark.usefixtures("asked")
def test_every_offered_spelling_resolves_to_the_offered_version() -> None:
    for offer in sources.offers(HAD):
        series, exact = (resolve(*spelled(spelling)) for spelling in (offer.spellings.split(", ") * 2)[:2])
        assert exact.name == f"fencepost/{offer.server}:{offer.version}"
        stable = offer.series and offer.source in ("trixie", "bookworm")
        assert series.name == (f"fencepost/{offer.server}:{offer.source}" if stable else exact.name)


@pytest.mark.usefixtures("asked")
def test_the_table_lists_each_version_with_its_source_and_spellings(capsys: pytest.CaptureFixture[str]) -> None:
    assert sources.main() == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "backend version from --version-of"
    assert "redis 8.0.2 Debian trixie redis=8.0, redis=8.0.2 (the default)" in lines
    assert "redis valkey 9.1.2 Debian sid valkey=9.1, valkey=9.1.2" in lines
    assert "etcd 3.7.2 Go module proxy etcd=3.7.2" in lines
    assert "postgres 16.4 Maven postgres=16, postgres=16.4" in lines
    assert sum("the default" in line for line in lines) == 3


@pytest.mark.usefixtures("asked")
def test_the_table_names_silent_sources(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for source in ("trixie", "modules"):
        monkeypatch.delitem(HAD, source)
    assert sources.main() == 0
    told = capsys.readouterr()
    silent = {"Debian trixie": "trixie", "Go module proxy": "modules"}
    assert told.err.splitlines() == [f"fencepost: {a} could not be asked: {b} is away" for a, b in silent.items()]
    series_of_trixie = "redis=8.0,"
    assert [word in told.out for word in ("18.6", "the default", series_of_trixie)] == [True, False, False]
    for source in ("bookworm", "sid", "maven"):
        monkeypatch.delitem(HAD, source)
    with pytest.raises(NotPossible):
        sources.main()
    told = capsys.readouterr()
    assert (told.out, len(told.err.splitlines())) == ("", 5)


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
    """An engine that has all base images, and answers as apt does."""
    return commands(monkeypatch, {"docker image ls": "sha256:base\n", "docker run": POLICY})


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Go on like another process, so many seconds later."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + seconds)
    monkeypatch.setattr(sources, "_known", {})


@cases(
    "debian, own",
    ("5:8.0.2-3+deb13u1", "8.0.2"), ("3.5.16-4+b3", "3.5.16"), ("3.8.0+dfsg-2", "3.8.0"),
    ("8.1.1+dfsg1-3+deb13u2", "8.1.1"), ("17.11-0+deb13u1", "17.11"), ("2.0", "2.0"),
)  # fmt: skip
def test_the_upstream_version_is_read_from_a_debian_version(debian: str, own: str) -> None:
    assert sources.upstream(debian) == own


class TestSuites:
    @cases("suite, asked_in, mirror", ("bookworm", "bookworm", ""), ("sid", "trixie", "http://mirror.example/debian"))
    def test_apt_is_asked_in_the_suites_base(self, engine: Commands, suite: str, asked_in: str, mirror: str) -> None:
        assert sources.ask(suite) == {"redis": ["8.0.2"], "postgres": ["17.11"]}
        (run,) = [line for line in engine.called if line.startswith("docker run")]
        assert f" MIRROR={mirror} --env SUITE={suite} {base.name(asked_in)} sh " in run
        assert {word for line in engine.called for word in line.split() if "/base:" in word} == {base.name(asked_in)}

    def test_nobody_is_asked_twice_a_day(self, engine: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
        had = sources.ask("sid")
        asked = len(engine.called)
        assert sources.ask("sid") == had
        later(monkeypatch, 80000)
        assert (sources.ask("sid"), len(engine.called)) == (had, asked)
        sources.forget("sid")
        sources.ask("sid")
        assert len(engine.called) == 2 * asked
        later(monkeypatch, 90000)
        sources.ask("sid")
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 200000)
        sources.ask("sid")  # a run keeps the answer it got
        assert len(engine.called) == 3 * asked

    def test_the_last_answer_of_a_silent_source_counts(self, engine: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
        had = sources.ask("sid")
        later(monkeypatch, 200000)
        engine.answers["docker run"] = Failed("docker run: no route to host")
        with pytest.raises(Failed, match="no route"):
            sources.ask("sid")
        said: list[str] = []
        with machine.heard_by(said.append):
            assert sources.ask_or_recall("sid") == had
        assert "no route to host): taking what it had on 2" in said[-1]
        with pytest.raises(Failed, match="no route"):
            sources.ask_or_recall("trixie")  # trixie never answered

    def test_an_answer_without_any_server_is_an_error(self, engine: Commands) -> None:
        engine.answers["docker run"] = ""
        with pytest.raises(Failed, match="no server of Debian sid"):
            sources.ask("sid")


class ModuleProxy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        good = self.path == "/good/go.etcd.io/etcd/server/v3/@v/list"
        self.send_response(200 if good else 404)
        self.end_headers()
        self.wfile.write(b"v3.5.0-alpha.0\nv3.5.9\nv3.6.0\nv3.5.10\n" if good else b"")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def proxy() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), ModuleProxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class TestModules:
    def test_releases_come_newest_first_and_hide_passwords(self, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GOPROXY", f"{proxy}/bad|{proxy}/good/,direct")
        assert sources.ask("modules") == {"etcd": ["3.6.0", "3.5.10", "3.5.9"]}
        monkeypatch.setattr(sources, "_known", {})
        monkeypatch.setenv("GOPROXY", "off")
        with pytest.raises(Failed, match="GOPROXY, which names the module proxy, names none"):
            sources.ask_or_recall("modules")
        monkeypatch.setenv("GOPROXY", proxy.replace("//", "//user:secret@"))
        with pytest.raises(Failed, match="no list of etcd's versions: HTTPError") as failed:
            sources.ask("modules")
        assert "secret" not in str(failed.value)

    def test_maven_has_users_settings(self, engine: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        listed = ("3.9.0 3.10.1 3.5.6-beta 3.4.14 3.9.10", "14.9.0 14.10.1 9.6.24 12.0.0-1 14.10.0")
        lists = zip(images.ARTIFACTS.values(), listed, strict=True)
        xml = [f"{name}\n<version> {its.replace(' ', '</version> <version>')}</version>\n" for name, its in lists]
        engine.answers["docker run"] = "".join(xml)
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / ".m2").mkdir()
        (tmp_path / ".m2/settings.xml").write_text("<password>secret</password>")
        assert sources.ask("maven") == {"zookeeper": ["3.10.1", "3.9.10", "3.9.0"], "postgres": ["14.10", "14.9"]}
        (run,) = [line for line in engine.called if line.startswith("docker run")]
        assert " MAVEN_SETTINGS --env ARTIFACTS=org.apache.zookeeper:zookeeper io.zonky.test." in run
        assert "secret" not in run
