"""Which image a version means, when it is built, by whom, and on what."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra import base, engine, images, machine
from infra.images import Image, UnknownBackend, UnknownVersion, resolve
from infra.machine import Failed, NotPossible
from infra.tests.fakes import Said, commands, executable

CARRIED_NOW = {
    "trixie": {"redis": "8.0.2", "zookeeper": "3.9.3", "etcd": "3.5.16", "postgres": "17.11", "pgbouncer": "1.24.1"},
    "bookworm": {"redis": "7.0.15", "zookeeper": "3.8.0", "etcd": "3.4.23", "postgres": "15.18", "pgbouncer": "1.18.0"},
}

FAKE_DOCKER = r"""
cd "$STATE"
case "$1 $2" in
  "image inspect") name=$(echo "$5" | tr /: __); [ -f "$name" ] && cat "$name" ;;
  "image ls") echo sha256:base ;;
  "image prune") ;;
  "info --format") echo /nowhere ;;
  "build "*)
    while [ $# -gt 1 ]; do
      case "$1 $2" in
        "--tag "*) name=$(echo "$2" | tr /: __) ;;
        "--label fencepost.recipe="*) recipe=${2#*=} ;;
        "--label fencepost.base="*) under=${2#*=} ;;
      esac
      shift
    done
    echo "$name" >>builds
    sleep 0.5
    echo "$recipe $under" >"$name" ;;
  *) echo "unexpected: $*" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Suites whose apt was asked; nothing is built yet."""
    suites: list[str] = []

    def answer(suite: str, say: machine.Say) -> dict[str, str]:
        suites.append(suite)
        return CARRIED_NOW[suite]

    monkeypatch.setattr(images, "_ask", answer)
    monkeypatch.setattr(images, "is_current", lambda image: False)
    return suites


@pytest.mark.parametrize(
    ("backend", "version", "name", "suite"),
    [
        ("etcd", None, "fencepost/etcd:trixie", "trixie"),
        ("etcd", "3", "fencepost/etcd:trixie", "trixie"),
        ("etcd", "3.5", "fencepost/etcd:trixie", "trixie"),
        ("etcd", "3.4", "fencepost/etcd:bookworm", "bookworm"),
        ("redis", "7", "fencepost/redis:bookworm", "bookworm"),
        ("postgres", "15", "fencepost/postgres:bookworm", "bookworm"),
        ("toxiproxy", None, "fencepost/toxiproxy:2.12.0", "trixie"),
        ("toxiproxy", "2.12.0", "fencepost/toxiproxy:2.12.0", "trixie"),
        ("redis", "image:my/redis:unstable", "my/redis:unstable", None),
    ],
)
def test_a_series_asks_nobody(
    asked: list[str], backend: str, version: str | None, name: str, suite: str | None
) -> None:
    image = resolve(backend, version)
    assert (image.name, image.suite) == (name, suite)
    assert not asked


@pytest.mark.parametrize(
    ("backend", "version", "suite"),
    [("etcd", "3.4.23", "bookworm"), ("etcd", "3.5.16", "trixie"), ("postgres", "17.11", "trixie")],
)
def test_an_exact_version_is_that_one(asked: list[str], backend: str, version: str, suite: str) -> None:
    assert resolve(backend, version) == Image(backend, f"fencepost/{backend}:{version}", suite, version)
    assert asked == [suite]


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("backend", "version", "there_is"),
    [
        ("etcd", "3.5.15", ["3.5.16 (Debian trixie)", "3.4 (Debian bookworm)"]),
        ("etcd", "3.6", ["3.5 (Debian trixie)"]),
        ("etcd", "3.55", ["3.5 (Debian trixie)"]),
        ("etcd", "35", ["3.5 (Debian trixie)"]),
        ("etcd", "", ["3.5 (Debian trixie)"]),
        ("redis", "latest", ["8.0 (Debian trixie)", "7.0 (Debian bookworm)"]),
        ("toxiproxy", "2.5", ["2.12.0"]),
    ],
)
def test_an_unknown_version_lists_what_there_is(backend: str, version: str, there_is: list[str]) -> None:
    with pytest.raises(UnknownVersion) as unknown:
        resolve(backend, version)
    assert unknown.value.status == 2
    assert [word for word in [f"{backend} {version}", *there_is] if word not in str(unknown.value)] == []


def test_an_unknown_backend_lists_what_there_is() -> None:
    with pytest.raises(UnknownBackend, match="'mysql'; there are redis, zookeeper, etcd, postgres"):
        resolve("mysql")


def test_an_exact_version_that_is_built_asks_nobody(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "is_current", lambda image: image.version == "3.4.20")
    assert resolve("etcd", "3.4.20").suite == "bookworm"
    assert not asked


@pytest.mark.parametrize(
    ("debian", "own"),
    [
        ("5:8.0.2-3+deb13u1", "8.0.2"),
        ("3.5.16-4+b3", "3.5.16"),
        ("3.8.0+dfsg-2", "3.8.0"),
        ("17.11-0+deb13u1", "17.11"),
        ("2.0", "2.0"),
    ],
)
def test_upstream_version(debian: str, own: str) -> None:
    assert images.upstream(debian) == own


def test_every_backend_has_a_recipe_and_every_suite_a_version() -> None:
    for backend, suites in images.CARRIED.items():
        assert "ARG SUITE" in (images.RECIPES / backend / "Dockerfile").read_text()
        assert tuple(suites) == base.SUITES
    for recipe, needed in images.NEEDS.items():
        dockerfile = (images.RECIPES / recipe / "Dockerfile").read_text()
        assert all(f"FROM fencepost/{name}:${{SUITE}} AS {name}\n" in dockerfile for name in needed)
    assert f"ARG VERSION={images.TOXIPROXY}" in (images.RECIPES / "toxiproxy/Dockerfile").read_text()


def test_a_recipe_is_all_that_an_image_is_made_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(images.RECIPES, tmp_path / "images")
    monkeypatch.setattr(images, "RECIPES", tmp_path / "images")
    image = resolve("zookeeper")
    digests = {images.recipe(image)}
    digests.add(images.recipe(resolve("zookeeper", "3.8")))
    digests.add(images.recipe(Image("zookeeper", image.name, "trixie", "3.9.3")))
    script = tmp_path / "images/zookeeper/zookeeper.sh"
    script.write_text(script.read_text() + "\n# more\n")
    digests.add(images.recipe(image))
    script.chmod(0o644)
    digests.add(images.recipe(image))
    assert len(digests) == 5
    (tmp_path / "images/redis/Dockerfile").write_text("FROM other\n")
    assert images.recipe(image) in digests
    needs_clock, needs_none = images.recipe(resolve("redis")), images.recipe(resolve("etcd"))
    (tmp_path / "images/clock/clock.c").write_text("/* other */\n")
    assert images.recipe(resolve("redis")) != needs_clock
    assert images.recipe(resolve("etcd")) == needs_none


@pytest.mark.parametrize(
    ("labels", "base_id", "current"),
    [
        ("RECIPE sha256:base\n", "sha256:base\n", True),
        ("RECIPE sha256:base\n", "", True),  # the base was deleted since
        ("RECIPE sha256:other\n", "sha256:base\n", False),
        ("old sha256:base\n", "sha256:base\n", False),
        (" \n", "sha256:base\n", False),  # somebody else's image under our name
        (Failed("no such image"), "sha256:base\n", False),
    ],
)
def test_an_image_is_current_when_recipe_and_base_are(
    monkeypatch: pytest.MonkeyPatch, labels: str | Failed, base_id: str, current: bool
) -> None:
    image = resolve("redis")
    said = labels.replace("RECIPE", images.recipe(image)) if isinstance(labels, str) else labels
    commands(monkeypatch, {"docker image inspect": said, "docker image ls": base_id})
    assert images.is_current(image) is current


def test_of_many_processes_one_builds(tmp_path: Path) -> None:
    executable(tmp_path / "bin", "docker", FAKE_DOCKER)
    environment = os.environ | {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "STATE": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    script = "from infra import images; images.ensure(images.resolve('redis')); print('there')"
    several = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            cwd=images.RECIPES.parent.parent,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    said = [process.communicate(timeout=60) for process in several]
    assert [out for out, _ in said] == ["there\n"] * 4, said
    # The clock's, out of which it takes the shim, comes first.
    assert (tmp_path / "builds").read_text().split() == ["fencepost_clock_trixie", "fencepost_redis_trixie"]
    assert sum("redis:trixie is ready" in err for _, err in said) == 1


def test_what_builds_are_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The machine's proxies and module sources by name, never their values, and its network where a proxy needs it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@127.0.0.1:3128")
    monkeypatch.setattr(machine, "apt_settings", list)
    called = commands(
        monkeypatch,
        {
            "docker image inspect": Failed("no such image"),
            "docker image ls": "sha256:base\n",
            "docker info": "/nowhere\n",
            "docker build": "",
            "docker image prune": "",
            "go env": json.dumps({"GOPROXY": "https://secret@modules.example", "GOSUMDB": ""}),
        },
    )
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    images.ensure(resolve("toxiproxy"), Said())
    (build,) = [line for line in called.called if line.startswith("docker build")]
    assert "--build-arg HTTPS_PROXY " in build
    assert "--build-arg GOPROXY " in build
    assert "--network host" in build
    assert "secret" not in build
    assert "GOSUMDB" not in build


def test_an_image_of_the_users_own_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    called = commands(monkeypatch, {"docker image ls": "sha256:own\n"})
    images.ensure(resolve("redis", "image:my/redis:1"), Said())
    assert called.called == ["docker image ls --no-trunc --quiet my/redis:1"]
    called.answers["docker image ls"] = ""
    monkeypatch.setattr(base, "pull", lambda name, say: False)
    with pytest.raises(Failed, match="docker pull my/redis:1 says why"):
        images.ensure(resolve("redis", "image:my/redis:1"), Said())


def test_a_base_that_cannot_be_had_says_what_would_help(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    commands(monkeypatch, {"docker image ls": ""})
    monkeypatch.setattr(base, "pull", lambda name, say: False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(machine, "has_apt", lambda: False)
    with pytest.raises(NotPossible, match="no registry answers for debian:trixie-slim"):
        base.ensure("trixie", Said())


# --- with the engine ---


@pytest.mark.docker
def test_a_silent_registry_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "REGISTRY_ANSWERS_WITHIN", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        before = time.monotonic()
        assert not base.pull(f"127.0.0.1:{silent.getsockname()[1]}/nothing:1", Said())
    assert time.monotonic() - before < 5


@pytest.mark.docker
def test_a_refusing_registry_is_no_pull() -> None:
    assert not base.pull("127.0.0.1:9/nothing:1", Said())


@pytest.mark.docker
def test_what_is_there_costs_nothing() -> None:
    wanted = [resolve(backend) for backend in (*images.CARRIED, "toxiproxy")]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(images.ensure, wanted))
    before = time.monotonic()
    for image in wanted:
        images.ensure(image)
    assert (time.monotonic() - before) / len(wanted) < 0.5


@pytest.mark.docker
@pytest.mark.parametrize(
    ("backend", "command", "expected"),
    [
        ("redis", ["redis-server", "--version"], "v=8."),
        ("etcd", ["--version"], "etcd Version: 3.5."),
        ("postgres", ["--version"], None),
        ("toxiproxy", ["-version"], images.TOXIPROXY),
        ("zookeeper", ["--version"], None),
    ],
)
def test_the_images_hold_what_they_promise(backend: str, command: list[str], expected: str | None) -> None:
    image = resolve(backend)
    images.ensure(image)
    if backend == "postgres":
        said = engine.docker("run", "--rm", "--entrypoint", "postgres", image.name, *command)
        expected = "(PostgreSQL) 17."
    elif backend == "zookeeper":
        said = engine.docker("run", "--rm", "--entrypoint", "ls", image.name, "/usr/share/java")
        expected = "zookeeper-3.9."
    else:
        said = engine.docker("run", "--rm", image.name, *command)
    assert expected
    assert expected in said


@pytest.mark.docker
def test_postgres_will_not_start_without_a_password() -> None:
    image = resolve("postgres")
    images.ensure(image)
    with pytest.raises(Failed, match="POSTGRES_PASSWORD is needed"):
        engine.docker("run", "--rm", image.name)
