"""The Python that runs the workers: that of the suite, or of an environment of the user's own (`--python`).

In another environment a lock meets the releases of client libraries that are installed there; nothing is installed into
it. Workers import the standard library, psycopg and what the lock imports. The suite itself loads a lock only to read
its declarations: what it imports and the suite does not have is then taken from the other environment too.
"""

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.docker import machine
from infra.errors import Failed

ANSWERS_WITHIN: Final = 60.0
"""Seconds."""

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
    """It cannot run workers. The text says in one line why."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python for workers; without a path that of the suite."""

    path: str = ""  # what to run
    packages: tuple[str, ...] = ()  # the folders in which it finds packages
    no_skew: str = ""  # why the clocks of its workers cannot be moved

    def lend(self) -> None:
        """Let this process import what only the other environment has."""
        sys.path += [folder for folder in self.packages if folder not in sys.path]


def ask(path: str) -> Interpreter:
    """path: an executable, or the folder of a virtual environment. Raises BadInterpreter."""
    folder = Path(path)
    # Not resolved: the Python of a virtual environment is a link, and is another behind it.
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
