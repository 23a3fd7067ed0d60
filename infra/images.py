"""Images of backends: which version, built when, never pulled by our names.

`resolve` turns what a user asks for (`3.4`, `3.5.16`, nothing, `image:NAME`) into an Image; `ensure` makes it exist.
Every recipe is a folder of `infra/images/` with a Dockerfile that takes the Debian suite as an argument: the suite
chooses the version. An image carries a label with the digest of its recipe and the id of its base, so that a changed
recipe is built again and an unchanged one costs one question to the engine. A recipe may take files out of another of
ours of the same suite (NEEDS); then that one is built first, and its recipe is part of the digest.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra import base, engine, machine
from infra.engine import docker
from infra.machine import Failed, Say, Unknown

RECIPES: Final = Path(__file__).parent / "images"
TOXIPROXY: Final = "2.12.0"

BUILT_WITHIN = 1800.0
"""Seconds for one build; the slowest (Toxiproxy) measures 50 on two cores."""

VERSIONS_ASKED_EVERY = 86400.0
"""Seconds for which an answer of a suite's apt is believed."""


class UnknownBackend(Unknown):
    """There is no image recipe of that name."""


class UnknownVersion(Unknown):
    """No suite carries that version of the backend."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What a Debian suite carries of a backend: a series (`3.5`) and the package that tells the exact version."""

    series: str
    package: str


CARRIED: Final[Mapping[str, Mapping[str, Carried]]] = {
    "redis": {"trixie": Carried("8.0", "redis-server"), "bookworm": Carried("7.0", "redis-server")},
    "zookeeper": {"trixie": Carried("3.9", "libzookeeper-java"), "bookworm": Carried("3.8", "libzookeeper-java")},
    "etcd": {"trixie": Carried("3.5", "etcd-server"), "bookworm": Carried("3.4", "etcd-server")},
    "postgres": {"trixie": Carried("17", "postgresql-17"), "bookworm": Carried("15", "postgresql-15")},
    "pgbouncer": {"trixie": Carried("1.24", "pgbouncer"), "bookworm": Carried("1.18", "pgbouncer")},
}
"""Backend -> suite -> what is there; stable suites keep their series for life. The default suite stands first."""

NEEDS: Final[Mapping[str, Sequence[str]]] = {"redis": ("clock",), "postgres": ("clock",)}
"""Recipe -> the recipes whose images it takes files out of, by `FROM fencepost/NAME:${SUITE} AS NAME`."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image: the user's own, or ours with its suite (and the exact version, when one was asked for)."""

    backend: str
    name: str
    suite: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """A version that can be had here, and where it comes from."""

    backend: str
    version: str
    source: str
    image: str


# --- which ---


def resolve(backend: str, version: str | None = None, say: Say = machine.say) -> Image:
    """The image for a version: None is the default, `3.4` what a suite carries of that series, `3.5.16` just that.

    `image:NAME` names an image of the user's own. Raises UnknownBackend or UnknownVersion, which list what there is.
    An exact version may ask a suite's apt, for which the suite's base image is made.
    """
    if backend == "toxiproxy":
        if version in (None, TOXIPROXY):
            return Image(backend, f"fencepost/toxiproxy:{TOXIPROXY}", base.SUITES[0], TOXIPROXY)
        raise UnknownVersion(f"toxiproxy {version} is not to be had; there is {TOXIPROXY}")
    if backend not in CARRIED:
        raise UnknownBackend(f"no backend {backend!r}; there are {', '.join(CARRIED)}")
    if version is None:
        return _of_suite(backend, base.SUITES[0])
    if version.startswith("image:"):
        return Image(backend, version.removeprefix("image:"))
    for suite, carried in CARRIED[backend].items():
        if f"{carried.series}.".startswith(f"{version}."):
            return _of_suite(backend, suite)
    there_is = [f"{carried.series} (Debian {suite})" for suite, carried in CARRIED[backend].items()]
    for suite, carried in CARRIED[backend].items():
        if version.startswith(f"{carried.series}."):
            image = Image(backend, f"fencepost/{backend}:{version}", suite, version)
            if is_current(image):
                return image
            offered = _ask(suite, say)[backend]
            if offered == version:
                return image
            there_is.insert(0, f"{offered} (Debian {suite})")
    raise UnknownVersion(f"{backend} {version} is not to be had; there is {', '.join(there_is)}")


def versions(say: Say = machine.say) -> dict[str, list[Offer]]:
    """Backend -> what can be had here, the default first. Makes the base images, in which apt is asked."""
    asked = {suite: _ask(suite, say) for suite in base.SUITES}
    offers = {
        backend: [
            Offer(backend, asked[suite][backend], f"Debian {suite}, {carried.package}", _of_suite(backend, suite).name)
            for suite, carried in suites.items()
        ]
        for backend, suites in CARRIED.items()
    }
    offers["toxiproxy"] = [Offer("toxiproxy", TOXIPROXY, "Go module proxy", resolve("toxiproxy").name)]
    return offers


def _of_suite(backend: str, suite: str) -> Image:
    return Image(backend, f"fencepost/{backend}:{suite}", suite)


def _ask(suite: str, say: Say) -> dict[str, str]:
    """Backend -> version in this suite, as its own apt says; kept for a day."""
    base_id = base.ensure(suite, say)
    answer = machine.cache_dir() / f"versions-{suite}-{base_id.removeprefix('sha256:')[:12]}.json"
    if answer.exists() and time.time() - answer.stat().st_mtime < VERSIONS_ASKED_EVERY:
        kept: dict[str, str] = json.loads(answer.read_text())
        if kept.keys() == CARRIED.keys():
            return kept
    say(f"asking apt what Debian {suite} carries")
    packages = {suites[suite].package: backend for backend, suites in CARRIED.items()}
    script = f"apt-get update -qq >&2 && apt-cache policy {' '.join(packages)}"
    said = docker("run", "--rm", *_network(), base.name(suite), "sh", "-c", script, timeout=120)
    found: dict[str, str] = {}
    backend = ""
    for line in said.splitlines():
        if not line.startswith(" "):
            backend = packages[line.rstrip(":")]
        elif line.strip().startswith("Candidate: "):
            found[backend] = upstream(line.partition(": ")[2])
    partial = answer.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(found))
    partial.replace(answer)
    return found


def upstream(version: str) -> str:
    """The backend's own version in a Debian one: `5:8.0.2-3+deb13u1` is 8.0.2, `3.8.0+dfsg-2` is 3.8.0."""
    without_epoch = version.rpartition(":")[2]
    return (without_epoch.rpartition("-")[0] or without_epoch).partition("+")[0]


# --- built ---


def ensure(image: Image, say: Say = machine.say) -> None:
    """Make the image exist and be of today's recipe; milliseconds when it is. Raises Failed or NotPossible.

    Of many processes that want the same one, one builds and the others wait.
    """
    if image.suite is None:
        if not base.image_id(image.name) and not base.pull(image.name, say):
            raise Failed(f"image {image.name}: not here, and no registry gave it (docker pull {image.name} says why)")
        return
    if is_current(image):
        return
    with machine.alone(f"image-{image.name}", lambda: say(f"waiting for another process that builds {image.name}")):
        if not is_current(image):
            engine.require_room()
            base_id = base.ensure(image.suite, say)
            for needed in NEEDS.get(image.backend, ()):
                ensure(_of_suite(needed, image.suite), say)
            _build(image, base_id, say)


def is_current(image: Image) -> bool:
    """Whether the image is there, of today's recipe, on today's base (or on one that was since deleted)."""
    labels = '{{index .Config.Labels "fencepost.recipe"}} {{index .Config.Labels "fencepost.base"}}'
    try:
        made_by, made_on = docker("image", "inspect", "--format", labels, image.name).split(" ")
    except Failed:
        return False
    return made_by == recipe(image) and base.image_id(base.name(image.suite or "")) in (None, made_on.strip())


def recipe(image: Image) -> str:
    """Digest of everything that an image is made from, its base apart."""
    digest = hashlib.sha256(json.dumps([image.suite, image.version]).encode())
    folder = RECIPES / image.backend
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        part = [path.relative_to(folder).as_posix(), path.stat().st_mode & 0o100, path.read_text()]
        digest.update(json.dumps(part).encode())
    for needed in NEEDS.get(image.backend, ()):
        digest.update(recipe(_of_suite(needed, image.suite or "")).encode())
    return digest.hexdigest()


def _build(image: Image, base_id: str, say: Say) -> None:
    """Build with the classic builder: every engine has it, and it takes a base that only exists here."""
    say(f"building {image.name}")
    started = time.monotonic()
    arguments = {"SUITE": image.suite or ""} | ({"VERSION": image.version} if image.version else {})
    if image.backend == "toxiproxy":
        arguments |= _go_settings()
    label = f"{image.backend}:{image.name.rpartition(':')[2]}"
    labels = {"fencepost.image": label, "fencepost.recipe": recipe(image), "fencepost.base": base_id}
    docker(
        "build", "--force-rm", "--tag", image.name, *_network(),
        *(word for name in (*arguments, *_proxies()) for word in ("--build-arg", name)),
        *(word for pair in labels.items() for word in ("--label", "=".join(pair))),
        str(RECIPES / image.backend),
        # Values go by the environment: a proxy's password does not belong into a list of processes.
        env={"DOCKER_BUILDKIT": "0", **arguments},
        log=machine.cache_dir() / f"build-{label.replace(':', '-')}.log",
        timeout=BUILT_WITHIN,
    )  # fmt: skip
    # What the build leaves untagged: the stage with the compiler in it, the image of yesterday's recipe.
    docker("image", "prune", "--force", "--filter", f"label=fencepost.image={label}")
    say(f"{image.name} is ready ({time.monotonic() - started:.0f} s)")


def _proxies() -> list[str]:
    """Names of the proxy variables that are set; docker build knows them without a declaration."""
    return [
        name
        for proxy in ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy")
        for name in (proxy, proxy.upper())
        if os.environ.get(name)
    ]


def _network() -> list[str]:
    """Options of a container that must reach the world: a proxy on this machine's loopback needs its network."""
    ways = [*(os.environ[name] for name in _proxies() if "no_" not in name.lower()), *machine.apt_settings()]
    local = any(re.search(r"//([^/@]*@)?(127\.|localhost)", way) for way in ways)
    return ["--network", "host"] if local else []


def _go_settings() -> dict[str, str]:
    """Where this machine's Go gets modules from, as far as it says so."""
    names = ("GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE")
    if shutil.which("go"):
        found: dict[str, str] = json.loads(machine.run(["go", "env", "-json", *names]))
    else:
        found = {name: os.environ.get(name, "") for name in names}
    return {name: value for name, value in found.items() if value}


# --- the command ---


def main(argv: Sequence[str]) -> int:
    """`python -m infra versions`: what can be had here."""
    argparse.ArgumentParser(
        prog="python -m infra versions", description="Versions of each backend that can be had here, and where from."
    ).parse_args(argv)
    for offers in versions().values():
        for offer, note in zip(offers, ["default", *[""] * len(offers)], strict=False):
            print(f"{offer.backend:<10} {offer.version:<9} {note:<8} {offer.source:<36} {offer.image}")
    return 0
