"""Stand-ins for this machine: commands that answer from a table, executables that are a line of shell."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from infra.docker import machine
from infra.errors import Failed

HANGS_AFTER = 1800.0  # seconds after which a process or thread of a test counts as hung; no test measures such times
LONG = f"600.{os.getpid()}"  # an argument of `sleep`, and of no process that a run of the tests beside this one started

Answer = str | Failed | Callable[[list[str]], str]


class Commands:
    """Replaces `machine.run`. The answer is that of the longest prefix of the command line that the table knows."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.called: list[str] = []

    def __call__(self, argv: Sequence[str], **_: object) -> str:
        line = " ".join(argv)
        self.called.append(line)
        known = [prefix for prefix in self.answers if line.startswith(prefix)]
        assert known, f"unexpected command: {line}"
        answer = self.answers[max(known, key=len)]
        if isinstance(answer, Failed):
            raise answer
        return answer if isinstance(answer, str) else answer(list(argv))

    def ran(self, prefix: str) -> bool:
        return any(line.startswith(prefix) for line in self.called)


def commands(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Answer]) -> Commands:
    """Let the commands of this test answer from a table. Any other command fails the test."""
    fake = Commands(answers)
    monkeypatch.setattr(machine, "run", fake)
    return fake


def executable(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def rights(patch: pytest.MonkeyPatch, *, apt: bool = True, root: bool = True, consent: bool = True) -> None:
    """Set whether this machine has apt, whether we are root, and whether the user says yes."""
    for name, answer in (("has_apt", apt), ("is_root", root), ("may_install", consent)):
        patch.setattr(machine, name, lambda answer=answer: answer)


def running(word: str) -> bool:
    """Whether some process of this machine has this word in its command line."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in file.read_bytes().split(b"\0"):
                return True
    return False
