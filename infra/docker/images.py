"""Images of backends: their versions, and how they are built. Images with our names are never pulled.

`resolve` turns what a user asks for (`3.4`, `3.5.16`, nothing, `valkey:8`, `image:NAME`) into an Image; `ensure` makes
it exist. `sources` knows where versions come from. Every recipe is a folder of `infra/images/` with a Dockerfile that
takes the Debian suite as an argument; in most recipes the suite decides the version. An image carries labels with the
digest of its recipe and the id of its base. So a changed recipe is built again, and an unchanged recipe costs one
question to the engine. A recipe may copy files from another image of ours of the same suite (NEEDS). Then that image is
built first, and its recipe is part of the digest. So is what a recipe copies from the checkout (FROM_CHECKOUT).
"""

import contextlib
import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.backends import BACKENDS
from infra.docker import base, engine, machine, sources
from infra.docker.engine import docker
from infra.docker.sources import PACKAGES, STANDS_FOR, VERSION, WHERE
from infra.errors import Failed, NotPossible, Trouble, UnknownName
from infra.suggestions import command

CHECKOUT: Final = Path(__file__).parents[2]
RECIPES: Final = Path(__file__).parents[1] / "images"
TOXIPROXY: Final = "2.12.0"

BUILT_WITHIN = 1800.0
"""Seconds for one build; the slowest, a server compiled from Go modules, took 620 on two busy cores."""
PRUNED_WITHIN = 600.0
"""Seconds to remove what a build leaves behind; more than 60 were seen."""


class UnknownVersion(UnknownName):
    """No source has that version of the backend."""


ARTIFACTS: Final[Mapping[str, str]] = {
    f"{server}-maven": package.elsewhere["maven"]
    for server, package in PACKAGES.items()
    if "maven" in package.elsewhere
}
"""Recipe of a server that Maven gets -> its artifact."""

NEEDS: Final[Mapping[str, Sequence[str]]] = {
    **{server: package.needs for server, package in PACKAGES.items() if package.needs},
    **{recipe: ("maven", recipe.removesuffix("-maven")) for recipe in ARTIFACTS},
    **{f"planted-{name}": ("planted", name) for name, backend in BACKENDS.items() if backend.plants},
    "fencepost": ("libraries",),
}
"""Recipe -> the recipes from whose images it copies files, by `FROM fencepost/NAME:${SUITE} AS NAME`."""

PACKAGER: Final = "fencepost.packager"  # label of an image: who packaged the server in it

REGISTRY: Final[Mapping[str, str]] = {"toxiproxy": "modules", "libraries": "index"} | {
    f"{server}-{registry}": registry for server, package in PACKAGES.items() for registry in package.elsewhere
}
"""Recipe that gets modules -> the registry that it gets them from."""

FROM_CHECKOUT: Final[Mapping[str, Sequence[str]]] = {
    "libraries": ("pyproject.toml", "requirements.lock"),
    "fencepost": ("LICENSE", "README.md", "pyproject.toml", "checkers", "infra", "results", "suites"),
}
"""Recipe -> the parts of the checkout that it finds in the folder `checkout`, without tests and pictures."""
_LEFT_OUT: Final = shutil.ignore_patterns("__pycache__", "runs", "tests", "*.md", "*.png", "*.svg")


@dataclass(frozen=True, slots=True)
class Image:
    """An image: the user's own, or ours with its suite (and the exact version, when one was asked for)."""

    recipe: str  # ours: the folder of `infra/images/` that it is made from; the user's own: the server in it
    name: str
    suite: str | None = None
    version: str | None = None


FENCEPOST: Final = Image("fencepost", "fencepost", base.SUITES[0])
"""The image in which fencepost itself runs (suites/README.md). No run needs it."""

# --- which ---


def spelled(pair: str) -> tuple[str, str]:
    """(backend, version) from `etcd=3.4`. Valkey stands for a backend, so `valkey=8` gives redis and `valkey:8`.

    A part that is missing is empty. `resolve` finds out whether there is such a backend and version.
    """
    server, _, version = pair.partition("=")
    if server in STANDS_FOR and version:
        version = f"{server}:{version}"
    return STANDS_FOR.get(server, server), version


def resolve(backend: str, version: str | None = None) -> Image:
    """The image for a version: None is the default, `3.5.16` exactly that, `3.4` the newest of that series.

    infra/README.md has the order of sources. `valkey:8` is another server for its backend. Raises UnknownName or
    UnknownVersion; both list what there is. Anything but a series of a stable suite is asked for, once a day, unless
    its image is here.
    """
    if backend == "toxiproxy":
        if version in (None, TOXIPROXY):
            return Image(backend, f"fencepost/toxiproxy:{TOXIPROXY}", base.SUITES[0], TOXIPROXY)
        raise UnknownVersion(f"toxiproxy {version} is not to be had; there is {TOXIPROXY}")
    if backend not in PACKAGES or backend in STANDS_FOR:
        known = ", ".join(name for name in PACKAGES if name not in STANDS_FOR)
        raise UnknownName(f"no backend {backend!r}; there are {known}")
    if version is None:
        return _of_suite(backend, base.SUITES[0])
    other, _, its = version.partition(":")
    server, version = (other, its) if STANDS_FOR.get(other) == backend else (backend, version)
    if version.startswith("image:"):
        name = version.removeprefix("image:")
        recipe, _, bug = name.removeprefix("fencepost/").partition(":")
        ours = name == f"fencepost/planted-{server}:{bug}"  # has a planted bug; built where it is missing
        return Image(recipe, name, base.SUITES[0], bug) if ours else Image(server, name)
    for suite, series in PACKAGES[server].series.items():
        if f"{series}.".startswith(f"{version}."):
            return _of_suite(server, suite)
    there_is = {source: f"{series} ({WHERE[source]})" for source, series in PACKAGES[server].series.items()}
    if not VERSION.fullmatch(version):
        raise _unknown(server, version, [*there_is.values(), f"more ({command('versions')})"])
    # A stable suite can only have versions that begin with its series; of other sources nothing is known.
    begins = {source: f"{its}." for source, its in PACKAGES[server].series.items()}
    having = [source for source in sources.of(server) if f"{version}.".startswith(begins.get(source, ""))]
    exact = {source: _exact(server, version, source) for source in having}
    for image in exact.values():
        if is_current(image):
            return image
    for source in having:
        try:
            had = sources.ask_or_recall(source).get(server, ())
        except Trouble as trouble:
            there_is[source] = f"maybe more ({WHERE[source]}, which could not be asked: {trouble})"
            continue
        for candidate in had:
            if f"{candidate}.".startswith(f"{version}."):
                return _exact(server, candidate, source)
        there_is[source] = f"{', '.join(_telling(had, version))} ({WHERE[source]})"
    raise _unknown(server, version, there_is.values())


def _of_suite(recipe: str, suite: str) -> Image:
    return Image(recipe, f"fencepost/{recipe}:{suite}", suite)


def _exact(server: str, version: str, source: str) -> Image:
    name = f"fencepost/{server}:{version}"
    if source not in sources.REGISTRIES:
        return Image(server, name, source, version)
    recipe, suite = f"{server}-{source}", base.SUITES[0]
    series = sources.by_number(PACKAGES[server].series[suite])
    if recipe in ARTIFACTS and sources.by_number(version)[: len(series)] > series:
        suite = sources.SID  # what it takes from the suite's own image of the server must not be older than it
    return Image(recipe, name, suite, version)


def _telling(had: Sequence[str], version: str) -> list[str]:
    """The versions to name in an error: those of the same series or, if there are none, the newest of each series."""
    series = [".".join(known.split(".")[:2]) for known in had]
    same = [known for known, its in zip(had, series, strict=True) if f"{version}.".startswith(f"{its}.")]
    return same or [known for i, known in enumerate(had) if series[i] not in series[:i]] or ["none"]


def _unknown(server: str, version: str, there_is: Iterable[str]) -> UnknownVersion:
    return UnknownVersion(f"{server} {version} is not to be had; there is {', '.join(there_is)}")


# --- built ---


def ensure(image: Image) -> None:
    """Make sure that the image exists, from today's recipe; takes milliseconds if so. Raises Failed or NotPossible.

    If many processes want the same image, one builds it and the others wait.
    """
    if image.suite is None:
        if not base.image_id(image.name) and not base.pull(image.name):
            raise Failed(f"image {image.name}: not here, and no registry gave it (docker pull {image.name} says why)")
        return
    if is_current(image):
        return
    with machine.alone(f"image-{image.name}", f"waiting for another process that builds {image.name}"):
        if not is_current(image):
            engine.require_room()
            base_id = base.ensure(image.suite)
            for needed in NEEDS.get(image.recipe, ()):
                ensure(_of_suite(needed, image.suite))
            try:
                _build(image, base_id)
            except Failed as error:
                _still_there(image, error)
                raise


def is_current(image: Image) -> bool:
    """Whether the image exists, from today's recipe and on today's base (or on a base that was deleted since)."""
    labels = '{{index .Config.Labels "fencepost.recipe"}} {{index .Config.Labels "fencepost.base"}}'
    try:
        made_by, made_on = docker("image", "inspect", "--format", labels, image.name).split(" ")
    except Failed:
        return False
    return made_by == digest(image) and base.image_id(base.name(image.suite or "")) in (None, made_on.strip())


def digest(image: Image) -> str:
    """Digest of everything that an image is made from, except its base."""
    made_from = hashlib.sha256(json.dumps([image.suite, image.version]).encode())
    made_from.update(ARTIFACTS.get(image.recipe, "").encode())
    with _context(image.recipe) as folder:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            part = [path.relative_to(folder).as_posix(), path.stat().st_mode & 0o100, path.read_text()]
            made_from.update(json.dumps(part).encode())
    for needed in NEEDS.get(image.recipe, ()):
        made_from.update(digest(_of_suite(needed, image.suite or "")).encode())
    return made_from.hexdigest()


@contextlib.contextmanager
def _context(recipe: str) -> Iterator[Path]:
    """The folder that a recipe is built in. Raises NotPossible if the recipe needs a checkout, and this is none."""
    if recipe not in FROM_CHECKOUT:
        yield RECIPES / recipe
        return
    if not (CHECKOUT / "pyproject.toml").exists():
        raise NotPossible(f"the image {FENCEPOST.name} is made from a checkout, and this is an installed package")
    with tempfile.TemporaryDirectory(prefix="fencepost-") as name:
        folder = Path(name)
        shutil.copytree(RECIPES / recipe, folder, dirs_exist_ok=True)
        (folder / "checkout").mkdir()
        for part in FROM_CHECKOUT[recipe]:
            if (CHECKOUT / part).is_dir():
                shutil.copytree(CHECKOUT / part, folder / "checkout" / part, ignore=_LEFT_OUT)
            else:
                shutil.copy(CHECKOUT / part, folder / "checkout")
        yield folder


def _still_there(image: Image, error: Failed) -> None:
    """Raise UnknownVersion if the suite no longer has the version that it listed."""
    if image.version is None or image.recipe not in PACKAGES:
        return
    source = image.suite or ""
    sources.forget(source)
    try:
        had = sources.ask(source).get(image.recipe, ())
    except Trouble:
        return  # then the error of the build says more
    if image.version not in had:
        raise _unknown(image.recipe, image.version, [f"{', '.join(had) or 'none'} ({WHERE[source]})"]) from error


def _build(image: Image, base_id: str) -> None:
    """Build with the classic builder: every engine has it, and it takes a base that only exists here."""
    machine.say(f"building {image.name}")
    started = time.monotonic()
    arguments = {"SUITE": image.suite or ""} | ({"VERSION": image.version} if image.version else {})
    if registry := REGISTRY.get(image.recipe):
        arguments |= sources.settings(registry)
    packager = WHERE.get(registry or image.suite or "", "")
    if artifact := ARTIFACTS.get(image.recipe):
        arguments["ARTIFACT"] = artifact
        packager += f" ({artifact.partition(':')[0]})"
    label = image.name.removeprefix("fencepost/")
    labels = {"fencepost.image": label, "fencepost.recipe": digest(image), "fencepost.base": base_id}
    if packager:
        labels[PACKAGER] = packager
    with _context(image.recipe) as folder:
        docker(
            "build", "--force-rm", "--tag", image.name, *machine.network(),
            *(word for name in (*arguments, *machine.proxies()) for word in ("--build-arg", name)),
            *(word for pair in labels.items() for word in ("--label", "=".join(pair))),
            str(folder),
            # Values go through the environment: a proxy's password must not show in a list of processes.
            env={"DOCKER_BUILDKIT": "0", **arguments},
            log=machine.cache_dir() / f"build-{label.replace(':', '-')}.log",
            timeout=BUILT_WITHIN,
        )  # fmt: skip
    # Remove what the build leaves untagged: the stage with the compiler, and the image of the former recipe.
    # A Go compiler's stage takes long to remove on busy disks. The engine prunes for one client at a time.
    with machine.alone("image-prune"):
        docker("image", "prune", "--force", "--filter", f"label=fencepost.image={label}", timeout=PRUNED_WITHIN)
    machine.say(f"{image.name} is ready ({time.monotonic() - started:.0f} s)")
