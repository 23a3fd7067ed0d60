"""Hooks: the user's own commands for what we cannot do to the nodes of a target; suites/README.md has examples.

A command is split into words as a shell would, and {node} (the host as it was given), {port}, {name} (redis1) and
{backend} are filled in word by word. The caller does not trust the exit status of a command, and proves its effect from
outside. A fault is possible only if there is also a hook that undoes it.
"""

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from infra.errors import Failed
from infra.faults.fault import Need

VERBS: Final = ("pause", "resume", "kill", "start", "stop", "wipe")

NEEDED: Final[Mapping[Need, tuple[str, ...]]] = {
    "pause": ("pause", "resume"),
    "kill": ("kill", "start"),
    "stop": ("stop", "start"),
    "wipe": ("kill", "wipe", "start"),
}
"""What a fault may need -> the hooks that give it."""

WITHIN: Final = 30.0  # seconds that a command may take

_PLACE: Final = re.compile(r"\{(\w+)\}")
_PLACES: Final = ("node", "port", "name", "backend")


class BadHook(ValueError):
    """A hook that cannot be understood. The text says why."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Verb -> the words of its command."""

    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def missing(self, need: Need) -> tuple[str, ...]:
        return tuple(verb for verb in NEEDED[need] if verb not in self.commands)

    def run(self, verb: str, places: Mapping[str, str], within: float = WITHIN) -> None:
        """Call the command of a verb and wait for its end. Raises Failed with its last words.

        places: what `{node}`, `{port}`, `{name}` and `{backend}` stand for.
        """
        if verb not in self.commands:
            raise Failed(f"{places['name']}: no control over the nodes of a target: --hook {verb}='...' gives it")
        words = [_PLACE.sub(lambda match: places[match[1]], word) for word in self.commands[verb]]
        what = f"{places['name']}: hook {verb}"
        try:
            called = subprocess.Popen(
                words,
                encoding="utf-8",
                errors="replace",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is ours to handle, and this hook may be the one that heals
            )
        except OSError as error:
            raise Failed(f"{what}: {words[0]}: {error.strerror}") from error
        try:
            output, _ = called.communicate(timeout=within)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(called.pid, signal.SIGKILL)  # and its children: nothing may take effect later
            called.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise Failed(f"{what}: no end after {within:.0f} s") from error
            raise
        if called.returncode:
            last_lines = " | ".join(line.strip() for line in output.strip().splitlines()[-3:])
            raise Failed(f"{what}: status {called.returncode}" + (f": {last_lines}" if last_lines else ""))


def parse(pairs: Sequence[str]) -> Hooks:
    """The hooks from options `VERB=COMMAND`. Raises BadHook."""
    commands: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        verb, equals, command = pair.partition("=")
        if verb not in VERBS or not equals:
            raise BadHook(f"expected VERB='COMMAND' with one of: {', '.join(VERBS)}")
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise BadHook(f"{verb}: {str(error).lower()}") from error
        if not words:
            raise BadHook(f"{verb}: no command")
        unknown = [name for word in words for name in _PLACE.findall(word) if name not in _PLACES]
        if unknown:
            known = ", ".join(f"{{{name}}}" for name in _PLACES)
            raise BadHook(f"{verb}: nothing stands for {{{unknown[0]}}}; there are {known}")
        if commands.setdefault(verb, words) != words:
            raise BadHook(f"{verb}: there is one already")
    return Hooks(commands)
