"""`python -m results COMMAND`: stored runs in the terminal and in the browser; compared, merged, pruned, exported.

Exit status: 0; 2 for bad usage or input, and an interruption; the module of a command names further ones.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Final

from checkers.command.exit_status import BAD, to_the_end
from results.storage import files
from results.storage.files import BadFile
from results.terminal.output import warn

COMMANDS: Final = {
    "list": ("listing:list_", "the stored runs, oldest first"),
    "show": ("listing:show", "a run's matrix again, or the story of one trial or lane"),
    "open": ("listing:open_", "the page of a run or of a trial, in the browser"),
    "load": ("listing:load", "grants and operations of a run by backend, and the CPU time of each part"),
    "compare": ("compare:main", "two runs, cell by cell: what is new, cleared, changed"),
    "certificate": ("certificate:make", "may we go there? a run with --from and --to"),
    "verify": ("certificate:verify", "a certificate again, from the histories that it rests on"),
    "merge": ("merge:main", "the shards of a run as one run"),
    "prune": ("prune:main", "remove old runs"),
    "serve": ("serve:main", "the stored runs for a browser on this machine"),
    "export": ("redraw:export", "a trial, or a run's matrix, as one file to send to somebody"),
    "digest": ("digest:main", "a run in a page of Markdown"),
    "redraw": ("redraw:redraw", "a run's pages, drawn again from what was recorded"),
    "rejudge": ("redraw:rejudge", "a run's histories under today's checkers, and what they say differently"),
    "schema": ("schema:main", "the JSON Schema of summary.json"),
}
"""Name → its function, in `results.commands`, and its purpose."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status; wrong options end the process with 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    where, rest = _where(given)
    if not rest or rest[0] in ("-h", "--help"):
        print("usage: python -m results [--results DIR] COMMAND [-h] ...\n")
        for command, (_, purpose) in COMMANDS.items():
            print(f"  {command:<11} {purpose}")
        return 0 if rest else BAD
    name = rest[0]
    if name not in COMMANDS:
        warn(f"no command {name!r}; there are {', '.join(COMMANDS)}")
        return BAD
    module, _, function = COMMANDS[name][0].partition(":")
    try:
        status: int = getattr(importlib.import_module(f"results.commands.{module}"), function)([*where, *rest[1:]])
    except (BadFile, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        warn(" ".join(files.reason(error).splitlines()))
        return BAD
    return status


def _where(given: list[str]) -> tuple[list[str], list[str]]:
    """`--results DIR` before the command means the same as after it."""
    if given and given[0] == "--results" and len(given) > 1:
        return given[:2], given[2:]
    if given and given[0].startswith("--results="):
        return given[:1], given[1:]
    return [], given


if __name__ == "__main__":
    to_the_end(main)
