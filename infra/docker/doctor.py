"""Check what a run needs on this machine: what is there, what is missing and why; and repair it.

Imports with the standard library alone, on any Python 3.10 or newer: it is called where nothing is installed yet.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from infra.backends import BACKENDS, STORE
from infra.docker import base, engine, images, machine
from infra.docker.sources import PACKAGES, STANDS_FOR
from infra.errors import Failed, NotPossible, Trouble, UnknownName
from infra.waiting import at_once

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
_PACKAGE = "pip install 'fencepost[suite]'"
"""The command that installs the dependencies, where we are installed as a package."""
PYTHONS = ((3, 11), (3, 13))
"""The first and the last minor version that we are tested on."""
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
"""Commands that open pages for the project's own tests. The first has no window: tests take a third of the time."""
BROWSER = (BROWSERS[0], "fonts-dejavu-core")
"""Debian's packages for the tests that look at pages: the browser, and a font."""
BUILDERS = 2
"""Images built at a time: a build waits for the network and for the processor in turns."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: `why` says what was found, `fix` what to do when that is wrong.

    A thing that is not `needed` yet is made by the first run that needs it.
    """

    name: str
    state: Literal["ok", "missing", "broken"]
    why: str
    fix: str = ""
    needed: bool = True

    @property
    def hurts(self) -> bool:
        """Whether a run would stop at this."""
        return self.needed and self.state != "ok"


def checks() -> list[Check]:
    """Look at everything, change nothing."""
    return [check_python(), check_dependencies(), *_check_docker(), check_browser()]


def fix(*, everything: bool = False, tests: bool = False, image: bool = False) -> list[Check]:
    """Repair what is missing or broken and check again. everything: also images that can wait. tests: also the browser.
    image: also that of fencepost itself.

    Raises NotPossible where only the user can help, Failed where repairing fails.
    """
    if check_dependencies().hurts:
        install_dependencies()
    if engine.find().state != "running":
        engine.ensure()
    if not engine.compose():
        engine.ensure_compose()
    wanted = [each for each, needed in _images() if needed or everything] + [images.FENCEPOST] * image
    if not all(map(images.is_current, wanted)):
        engine.require_room()
        base.ensure(base.SUITES[0])
        at_once(images.ensure, wanted, BUILDERS)
    if tests and check_browser().state != "ok":
        install_browser()
    return checks()


# --- Python ---


def check_python() -> Check:
    """The interpreter that runs us."""
    ours = sys.version_info[:2]
    why = f"{'.'.join(map(str, sys.version_info[:3]))}, {sys.executable}"
    if PYTHONS[0] <= ours <= PYTHONS[1]:
        return Check("python", "ok", why)
    return Check("python", "broken", why, "Python 3.11, 3.12 or 3.13 is needed: make PYTHON=python3.x ...")


def check_dependencies() -> Check:
    """What this interpreter has installed, against the lock."""
    if not LOCK.exists():
        return _check_package()
    missing, other, right = [], [], 0
    for name, versions, everywhere in locked(LOCK.read_text()):
        try:
            have = metadata.version(name)
        except metadata.PackageNotFoundError:
            if everywhere:
                missing.append(name)
        else:
            if have in versions:
                right += 1
            else:
                other.append(f"{name} {have} instead of {' or '.join(sorted(versions))}")
    if missing and not right:
        return Check("dependencies", "missing", "none for this Python", "make venv, then .venv/bin/python -m infra")
    if missing or other:
        problems = [f"{len(missing)} missing ({', '.join(missing[:3])})"] if missing else []
        return Check("dependencies", "broken", ", ".join(problems + other[:3]), "sh infra/bootstrap.sh --again")
    return Check("dependencies", "ok", f"{right} as locked")


def _check_package() -> Check:
    """Check the requirements of our package, where we are installed as one, with those of its extra `suite`."""
    required = re.findall(
        r'^([\w.-]+)[^;\n]*(?:; extra == "suite")?$', "\n".join(metadata.requires("fencepost") or []), re.MULTILINE
    )
    missing = [name for name in required if not any(metadata.Distribution.discover(name=name))]
    if missing:
        return Check("dependencies", "missing", ", ".join(missing), _PACKAGE)
    return Check("dependencies", "ok", f"{len(required)} of the package")


def locked(lock: str) -> Iterator[tuple[str, set[str], bool]]:
    """For each package of a lock: its name, its versions, and whether it is for every machine.

    A package may be locked in several versions, each for some Pythons; only pip knows which one is for ours.
    """
    requirements: dict[str, tuple[set[str], bool]] = {}
    for name, version, marker in re.findall(r"^([\w.-]+)==([^\s;\\]+)\s*(;[^\\\n]*)?", lock, re.MULTILINE):
        versions, _ = requirements.get(name, (set(), True))
        requirements[name] = (versions | {version}, not marker)
    return ((name, *rest) for name, rest in requirements.items())


def install_dependencies() -> None:
    """Bring the virtual environment to what the lock says. Raises Failed, or NotPossible where there is no lock."""
    if not LOCK.exists():
        raise NotPossible(_PACKAGE)
    again = ["--again"] if Path(sys.prefix) == ROOT / ".venv" else []
    done = subprocess.run(["sh", str(ROOT / "infra/bootstrap.sh"), *again], check=False)
    if done.returncode:
        raise Failed("the virtual environment could not be made; the reason stands above")


# --- Docker ---


def _check_docker() -> Iterator[Check]:
    seen = engine.find()
    if seen.state == "running":
        yield Check("engine", "ok", f"Docker Engine {seen.version}")
    else:
        remedy = {
            "absent": "doctor --fix (Debian and Ubuntu as root); elsewhere: docs.docker.com/engine/install",
            "stopped": "start it (as root, doctor --fix does)",
            "refused": "join the group docker and log in again, or run as root",
        }
        yield Check("engine", "missing" if seen.state == "absent" else "broken", seen.why, remedy[seen.state])
    if version := engine.compose():
        yield Check("compose", "ok", f"docker compose {version}")
    else:
        how = "doctor --fix; where there is no apt: docs.docker.com/compose/install"
        yield Check("compose", "missing", "no `docker compose`", how)
    if seen.state != "running":
        yield Check("images", "missing", "no engine to ask")
        return
    yield check_disk()
    suite = base.SUITES[0]
    if base.image_id(base.name(suite)):
        yield Check("base image", "ok", base.name(suite))
    else:
        yield Check("base image", "missing", f"{base.name(suite)} not made yet", "doctor --fix")
    for image, needed in _images():
        yield check_image(image, needed=needed)


def check_disk() -> Check:
    """Room for images, where the engine keeps them."""
    free = engine.room()
    if free is None:
        return Check("disk", "ok", "on the engine's machine, not ours to see")
    if free < engine.ROOM_NEEDED:
        why = f"{free:.1f} GB free where Docker keeps its images"
        return Check("disk", "broken", why, f"free some: {engine.ROOM_NEEDED:.0f} GB are needed (docker system df)")
    return Check("disk", "ok", f"{free:.0f} GB free")


def check_image(image: images.Image, *, needed: bool) -> Check:
    """Whether an image of ours exists and is from today's recipe."""
    if images.is_current(image):
        return Check(f"image {image.recipe}", "ok", image.name, needed=needed)
    old = base.image_id(image.name)
    why = f"{image.name}: {'its recipe or its base has changed' if old else 'not built yet'}"
    how = "doctor --fix" if needed else "built when first used, or: doctor --fix --all"
    return Check(f"image {image.recipe}", "broken" if old else "missing", why, how, needed)


def _images() -> list[tuple[images.Image, bool]]:
    """The default images, and whether every run needs them; in the order in which they are built.

    Toxiproxy's is the slowest to build. Every run needs the store, and by default begins with the first backend.
    """
    needed = [next(iter(BACKENDS)), STORE.name]
    servers = [*needed, *(name for name in PACKAGES if name not in (*needed, *STANDS_FOR))]
    return [(images.resolve("toxiproxy"), True), *((images.resolve(server), server in needed) for server in servers)]


# --- the browser ---


def find_browser() -> str | None:
    """The path of the first of `BROWSERS` that is installed."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def check_browser() -> Check:
    """The browser with which the project's own tests open pages; a run needs none."""
    if path := find_browser():
        return Check("browser", "ok", path, needed=False)
    how = "for make test: doctor --fix --tests (Debian as root), or install it"
    return Check("browser", "missing", "no chromium", how, needed=False)


def install_browser() -> None:
    """Install a browser where apt has one and we may. Elsewhere say why not; the tests that need it say so too."""
    try:
        if machine.has_apt() and machine.is_root():
            machine.refresh_apt()
            if not machine.candidate(BROWSER[0]):
                raise NotPossible(f"{BROWSER[0]} missing, and apt here knows none: install it the way of this system")
        machine.install(BROWSER)
    except Trouble as trouble:
        machine.say(f"tests of pages in a browser will be skipped: {trouble}")


# --- the command ---


def show(results: Sequence[Check]) -> None:
    """Print what was found, a line each; colours on a terminal, unless NO_COLOR is set."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for check in results:
        word = check.state if check.needed or check.state == "ok" else "later"
        colour = {"ok": 32, "later": 33}.get(word, 31)
        mark = f"\x1b[{colour}m{word:<8}\x1b[0m" if coloured else f"{word:<8}"
        print(f"{mark} {check.name:<16} {check.why}")
        if check.state != "ok" and check.fix:
            print(f"{'':<25} -> {check.fix}")


def main(*, repair: bool, all: bool, tests: bool, image: bool) -> int:
    """`python -m infra doctor`: 0 all there, 1 something missing or not repaired, 3 not possible here."""
    if (all or tests or image) and not repair:
        raise UnknownName("--all, --tests and --image go with --fix")
    trouble: Trouble | None = None
    try:
        results = fix(everything=all, tests=tests, image=image) if repair else checks()
    except Trouble as error:
        trouble, results = error, checks()
    hurts = any(check.hurts for check in results)
    if hurts or trouble or not repair:
        show(results)
    if trouble:
        raise trouble
    return int(hurts)
