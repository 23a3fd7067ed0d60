"""When an image is built, by which process and on which base; images of servers with a planted bug."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from checkers.tests.build import cases
from infra.docker import base, images, machine, servers_with_bugs, sources
from infra.docker.images import Image, UnknownVersion, resolve, spelled
from infra.docker.servers_with_bugs import PLANTS
from infra.errors import Failed, NotPossible
from infra.tests.fakes import HANGS_AFTER, Answer, commands, executable

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
    echo "$recipe $under" >"$name.new" && mv "$name.new" "$name" ;;
  *) echo "unexpected: $*" >&2; exit 1 ;;
esac
"""
UNBUILT: dict[str, Answer] = {
    "docker image inspect": Failed("no such image"), "docker image ls": "sha256:base\n", "docker info": "/nowhere\n",
    "docker build": "", "docker image prune": "",
}  # fmt: skip


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "apt_settings", list)


def test_every_server_has_a_recipe_and_every_backend_a_version_in_every_suite() -> None:
    for server, package in sources.PACKAGES.items():
        assert "ARG SUITE" in (images.RECIPES / server / "Dockerfile").read_text()
        assert tuple(package.series) == base.SUITES[: len(package.series)]
        assert len(package.series) == len(base.SUITES) or server in sources.STANDS_FOR
    for recipe, registry in images.REGISTRY.items():
        setting = {"modules": "GOPROXY=", "maven": "ARTIFACT\nARG MAVEN_SETTINGS=", "index": "PIP_INDEX_URL="}[registry]
        assert f"ARG {setting}\n" in (images.RECIPES / recipe / "Dockerfile").read_text()
    for recipe, needed in images.NEEDS.items():
        dockerfile = (images.RECIPES / recipe / "Dockerfile").read_text()
        assert all(f"FROM fencepost/{name}:${{SUITE}} AS {name}\n" in dockerfile for name in needed)
    assert f"ARG VERSION={images.TOXIPROXY}" in (images.RECIPES / "toxiproxy/Dockerfile").read_text()


def test_a_digest_covers_all_that_an_image_is_made_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(images.RECIPES, tmp_path / "images")
    monkeypatch.setattr(images, "RECIPES", tmp_path / "images")
    image = resolve("zookeeper")
    other = Image("zookeeper", image.name, "trixie", "3.9.3")
    digests = set(map(images.digest, (image, resolve("zookeeper", "3.8"), other)))
    script = tmp_path / "images/zookeeper/zookeeper.sh"
    script.write_text(script.read_text() + "\n# more\n")
    digests.add(images.digest(image))
    script.chmod(0o644)
    digests.add(images.digest(image))
    assert len(digests) == 5
    (tmp_path / "images/redis/Dockerfile").write_text("FROM other\n")
    assert images.digest(image) in digests
    servers = [resolve("redis"), resolve("redis", "image:fencepost/planted-redis:slow"), resolve("etcd")]
    before = list(map(images.digest, servers))
    (tmp_path / "images/clock/clock.c").write_text("/* other */\n")
    assert [images.digest(server) != then for server, then in zip(servers, before, strict=True)] == [True, True, False]
    checkout, digests = tmp_path / "checkout", set()
    others = shutil.ignore_patterns(".*", "__pycache__", "runs", "tests")  # other processes compile modules meanwhile
    monkeypatch.setattr(images, "CHECKOUT", shutil.copytree(images.CHECKOUT, checkout, ignore=others))
    for changed in ("LICENSE", "infra/errors.py", "requirements.lock", "Makefile", "README.md"):
        (checkout / changed).write_text("other")
        digests.add(images.digest(images.FENCEPOST))
    assert len(digests) == 4, "the Makefile is not in it"
    (checkout / "pyproject.toml").unlink()
    with pytest.raises(NotPossible, match="is made from a checkout"):
        images.digest(images.FENCEPOST)


@cases(
    "labels, base_id, current",
    ("RECIPE sha256:base\n", "sha256:base\n", True), ("RECIPE sha256:base\n", "", True),  # the base was deleted since
    ("RECIPE sha256:other\n", "sha256:base\n", False), ("old sha256:base\n", "sha256:base\n", False),
    # Somebody else's image under our name, or none.
    (" \n", "sha256:base\n", False), (Failed("no such image"), "sha256:base\n", False),
)  # fmt: skip
def test_an_image_is_current_when_recipe_and_base_are(
    monkeypatch: pytest.MonkeyPatch, labels: str | Failed, base_id: str, current: bool
) -> None:
    image = resolve("redis")
    said = labels if isinstance(labels, Failed) else labels.replace("RECIPE", images.digest(image))
    commands(monkeypatch, {"docker image inspect": said, "docker image ls": base_id})
    assert images.is_current(image) is current


def test_only_one_of_many_processes_builds_an_image(tmp_path: Path) -> None:
    executable(tmp_path / "bin", "docker", FAKE_DOCKER)
    env = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "STATE": str(tmp_path)}
    code = "from infra.docker import images; images.ensure(images.resolve('redis')); print('there')"
    command = [sys.executable, "-c", code]
    root, pipe = images.RECIPES.parent.parent, subprocess.PIPE
    several = [subprocess.Popen(command, cwd=root, env=env, stdout=pipe, stderr=pipe, text=True) for _ in range(4)]
    said = [process.communicate(timeout=HANGS_AFTER) for process in several]
    assert [out for out, _ in said] == ["there\n"] * 4, said
    # The image of the clock comes first: Redis's image takes the shim from it.
    assert (tmp_path / "builds").read_text().split() == ["fencepost_clock_trixie", "fencepost_redis_trixie"]
    assert sum("redis:trixie is ready" in err for _, err in said) == 1


def test_a_build_gets_proxies_and_module_sources_by_name_and_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of the machine's proxies and module sources, never the values; its network if a proxy needs that."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@127.0.0.1:3128")
    modules = json.dumps({"GOPROXY": "https://secret@modules.example", "GOSUMDB": ""})
    index = ":env:.index-url='https://secret@index.example'\nglobal.index-url='https://a.example'\nglobal.timeout='9'\n"
    called = commands(monkeypatch, UNBUILT | {"go env": modules, f"{sys.executable} -m pip config list": index})
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    images.ensure(resolve("toxiproxy"))
    images.ensure(Image("postgres-maven", "fencepost/postgres:16.4", "trixie", "16.4"))
    images.ensure(images.FENCEPOST)
    built = [line for line in called.called if line.startswith("docker build")]
    recipes = ("toxiproxy", "maven", "clock", "postgres", "postgres-maven", "libraries", "fencepost")
    builds = dict(zip(recipes, built, strict=True))
    for recipe, source in (("toxiproxy", "GOPROXY"), ("postgres-maven", "ARTIFACT"), ("libraries", "PIP_INDEX_URL")):
        assert all(f"--build-arg {name} " in builds[recipe] for name in ("HTTPS_PROXY", source))
    for build in builds.values():
        assert "--network host" in build
        assert not any(word in build for word in ("secret", "GOSUMDB", "TIMEOUT"))
    assert " fencepost.packager=Maven (io.zonky.test.postgres) " in builds["postgres-maven"]
    assert machine.pip_settings() == {"PIP_INDEX_URL": "https://secret@index.example"}


@pytest.mark.parametrize(("now", "gone"), [("8.0.7", True), ("8.0.6", False), (None, False)])
def test_a_failed_build_says_if_a_version_is_gone(monkeypatch: pytest.MonkeyPatch, now: str | None, gone: bool) -> None:
    """now: the version that sid has when it is asked again, None if it cannot be asked."""
    commands(monkeypatch, UNBUILT | {"docker build": Failed("docker build: non-zero code: 1")})
    monkeypatch.setattr(images, "NEEDS", {})
    monkeypatch.setattr(sources, "ask", Mock(side_effect=[{"redis": [now]} if now else Failed("no network")]))
    forgotten: list[str] = []
    monkeypatch.setattr(sources, "forget", forgotten.append)
    image = Image("redis", "fencepost/redis:8.0.6", "sid", "8.0.6")
    with pytest.raises(UnknownVersion if gone else Failed, match="8.0.7 .Debian sid" if gone else "non-zero code"):
        images.ensure(image)
    assert forgotten == ["sid"]


def test_an_image_of_the_users_own_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    called = commands(monkeypatch, {"docker image ls": "sha256:own\n"})
    images.ensure(resolve("redis", "image:my/redis:1"))
    assert called.called == ["docker image ls --no-trunc --quiet my/redis:1"]
    called.answers["docker image ls"] = ""
    monkeypatch.setattr(base, "pull", lambda name: False)
    with pytest.raises(Failed, match="docker pull my/redis:1 says why"):
        images.ensure(resolve("redis", "image:my/redis:1"))


def test_the_error_for_an_unavailable_base_image_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    commands(monkeypatch, {"docker image ls": ""})
    monkeypatch.setattr(base, "pull", lambda name: False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(machine, "has_apt", lambda: False)
    with pytest.raises(NotPossible, match="no registry answers for debian:trixie-slim"):
        base.ensure("trixie")


def test_planted_bugs_are_listed_and_have_images_under_their_own_names(capsys: pytest.CaptureFixture[str]) -> None:
    made = [resolve(*spelled(plant.spelling)) for plant in PLANTS]
    assert len(set(map(images.digest, made))) == len(PLANTS)
    assert [image.name for image in made] == [plant.version.removeprefix("image:") for plant in PLANTS]
    assert servers_with_bugs.main() == 0
    told = capsys.readouterr().out
    assert all(plant.bug in told and f"--to {plant.spelling}\n" in told for plant in PLANTS)
