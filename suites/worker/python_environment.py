"""The Python that runs the workers: that of the suite, or of an environment of the user's own (`--python`).

In another environment a lock runs with the releases of client libraries installed there; nothing is installed into it.
Workers import the standard library, psycopg and what the lock imports. The suite itself loads a lock only to read its
declarations: an import that the suite does not have is then taken from the other environment too.

`with_libraries` makes an environment that differs from one of these only in the releases of client libraries.
"""

import hashlib
import json
import re
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from infra.docker import machine
from infra.errors import Failed

ANSWERS_WITHIN: Final = 60.0  # seconds for an interpreter to answer
INSTALLS_WITHIN: Final = 600.0  # seconds for pip to install the libraries
UP_TO_DATE: Final = 86400.0  # seconds for which the newest release of a series is not looked for again
DISTRIBUTIONS: Final = {"redis-py": "redis"}
"""Client library → its distribution, if that has another name. Here the distribution has the name of the server."""

_RELEASE: Final = re.compile(r"[0-9][0-9A-Za-z.!+]*")

_QUESTION: Final = """
import json, sys
missing = {}
for name in ("psycopg.pq", "time_machine"):
    try:
        __import__(name)
    except ImportError as error:
        missing[name] = " ".join(str(error).split())
print(json.dumps([[path for path in sys.path if path], missing]))
"""


class BadInterpreter(Exception):
    """The interpreter cannot run workers. The text says in one line why."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python for workers; with an empty path, that of the suite."""

    path: str = ""  # what to run
    packages: tuple[str, ...] = ()  # the folders in which it finds packages
    no_skew: str = ""  # why the clocks of its workers cannot be moved

    def has(self, library: str) -> metadata.Distribution | None:
        """The library's distribution, if it is installed there. A name may have extras: `psycopg[binary]`."""
        name = DISTRIBUTIONS.get(library, library.partition("[")[0])
        return next(iter(metadata.distributions(name=name, path=list(self.packages))), None) if name else None

    def release(self, library: str) -> str:
        """The library's version there, empty if it is not installed."""
        return "" if (distribution := self.has(library)) is None else distribution.version

    def modules(self, library: str) -> set[str]:
        """The names of the modules that the library provides at the top level."""
        files = (distribution.files or ()) if (distribution := self.has(library)) else ()
        return {file.parts[0].removesuffix(".py") for file in files if file.suffix == ".py"}

    def lend(self) -> None:
        """Let this process import what only the other environment has."""
        sys.path += [folder for folder in self.packages if folder not in sys.path]


def ask(path: str) -> Interpreter:
    """path: an executable, or the folder of a virtual environment. Raises BadInterpreter."""
    folder = Path(path)
    # Not resolved: the Python of a virtual environment is a link to another Python.
    program = str((folder / "bin" / "python" if folder.is_dir() else Path(shutil.which(path) or path)).absolute())
    try:
        packages, missing = json.loads(machine.run([program, "-P", "-c", _QUESTION], timeout=ANSWERS_WITHIN))
    except (Failed, ValueError) as error:
        raise BadInterpreter(f"does not run as Python 3.11 or newer: {error}") from error
    if why := missing.get("psycopg.pq"):
        install = f"{program} -m pip install 'psycopg[binary]'"
        raise BadInterpreter(f"workers need psycopg there, for the fenced store: {install} ({why})")
    no_skew = "time-machine, which moves the clocks of workers, is not installed for --python"
    return Interpreter(program, tuple(packages), no_skew if "time_machine" in missing else "")


def with_libraries(python: Interpreter, wanted: Mapping[str, str]) -> Interpreter:
    """An interpreter that has these releases of client libraries (library → `5.0.8`, or `5.0` for the newest of that
    series) and all else from the environment of `python`, which must have each library in some release.

    Made with pip, and kept in the user's cache. Raises BadInterpreter.
    """
    needed = [_requirement(library, version) for library, version in wanted.items()]
    within = "\0".join([python.path, *python.packages, *needed])
    folder = machine.cache_dir() / "libraries" / hashlib.sha256(within.encode()).hexdigest()[:16]
    program, done = str(folder / "bin" / "python"), folder / "installed"
    with machine.alone("libraries"):
        if not done.exists() or time.time() - done.stat().st_mtime > UP_TO_DATE:
            try:
                if not done.exists():
                    machine.run([python.path, "-m", "venv", "--clear", "--without-pip", str(folder)])
                    (packages,) = folder.glob("lib/python*/site-packages")
                    (packages / "beside.pth").write_text("".join(f"{path}\n" for path in python.packages))
                pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--python", program]
                machine.run([*pip, "install", "--quiet", "--upgrade", *needed], timeout=INSTALLS_WITHIN)
                done.touch()
            except Failed as error:
                if not done.exists():
                    shutil.rmtree(folder, ignore_errors=True)
                raise BadInterpreter(f"{' and '.join(needed)}: {error}") from error
    return ask(program)


def _requirement(library: str, version: str) -> str:
    if not _RELEASE.fullmatch(version):
        raise BadInterpreter(f"expected a release, such as {library}=2.10 or {library}=2.10.0")
    series = "" if re.search(r"[^0-9.]", version) else ".*"
    return f"{DISTRIBUTIONS.get(library, library)}=={version.rstrip('.')}{series}"
