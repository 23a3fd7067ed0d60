"""`python -m results list | show RUN | open RUN`: runs that are stored, in the terminal or in the browser.

Exit status: 0, or 2 for bad usage and for a run that is missing or damaged.
"""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from results import matrix
from results.files import BadFile
from results.grid import counts
from results.run import Run

ROOT: Final = Path(__file__).parent / "runs"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "list":
            return _list(options.results)
        run = _find(options.run, options.results)
        return _show(run) if options.command == "show" else _open(run)
    except BadFile as error:
        print(f"results: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m results", description="Look at stored runs.")
    parser.add_argument("--results", type=Path, default=ROOT, metavar="DIR", help="where runs are stored")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="list the runs, oldest first")
    for name, help_ in (("show", "print a run's matrix again"), ("open", "open a run's page in the browser")):
        command = commands.add_parser(name, help=help_)
        command.add_argument("run", metavar="RUN", help="its name, the beginning of it, its folder, or `last`")
    return parser


def _runs(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob("*/run.json"))


def _find(name: str, root: Path) -> Run:
    """Raises BadFile."""
    if (Path(name) / "run.json").is_file():
        return Run.open(Path(name))
    runs = _runs(root)
    if not runs:
        raise BadFile(f"no runs in {root}")
    found = runs[-1:] if name == "last" else [path for path in runs if path.name.startswith(name)]
    if not found:
        raise BadFile(f"no run {name!r} in {root}; the last one is {runs[-1].name}")
    if len(found) > 1:
        raise BadFile(f"{name!r} names {len(found)} runs: {', '.join(path.name for path in found[:5])}")
    return Run.open(found[0])


def _list(root: Path) -> int:
    runs = _runs(root)
    if not runs:
        print(f"no runs in {root}")
    for path in runs:
        try:
            contents = Run.open(path).read()
        except BadFile as error:
            print(f"{path.name}  damaged: {error}")
            continue
        words = ", ".join(f"{count} {word}" for word, count in counts(contents.cells)) or "nothing judged"
        left = f", {len(contents.problems)} left out" if contents.problems else ""
        print(f"{path.name}  {words}{left}")
    return 0


def _show(run: Run) -> int:
    contents = run.read()
    console = Console()
    matrix.render(contents.cells, console, contents.problems)
    page = run.path / "index.html"
    if page.is_file():
        console.print(str(page), soft_wrap=True, markup=False, highlight=False)
    return 0


def _open(run: Run) -> int:
    page = run.path / "index.html"
    if not page.is_file():
        # A run that was interrupted has no page yet.
        run.close({})
    print(page)
    webbrowser.open(page.resolve().as_uri())
    return 0


if __name__ == "__main__":
    try:
        try:
            status = main()
        finally:
            sys.stdout.flush()  # now, where it can be caught: help too ends with what is still to be written
    except BrokenPipeError:  # whoever reads has heard enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 2
    sys.exit(status)
