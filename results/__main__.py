"""`python -m results COMMAND`: stored runs in the terminal and in the browser; compared, merged, pruned, exported.

Exit status: 0, or 2 for bad usage, bad input or an interruption. results/README.md has the further statuses.
"""

import importlib
import re
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import click
from click import Argument, Option

from checkers.command.exit_status import BAD, status_of, to_the_end
from results.storage.files import RUNS, BadFile, reason
from results.terminal.output import warn

NAMING: Final = "its name, the beginning of it, its folder, `last`, or `last~1` for the one before"
FLAG: Final = partial(Option, is_flag=True)
PATH: Final = click.Path(path_type=Path)
RESULTS: Final = Option(["--results"], type=PATH, default=RUNS, metavar="DIR", help="where runs are stored")
RUN: Final = Argument(["run"], help=NAMING)
CERTIFIED: Final = Argument(["run"], help=f"{NAMING}; or a certificate.json")
OF: Final = Argument(["of"], metavar="RUN[/TRIAL]", help="a run, a trial of it, or a trial's folder")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _call(function: str, **options: object) -> int:
    """Load a `module:function` of `results.commands` and call it. Returns its exit status."""
    module, _, name = function.partition(":")
    try:
        return int(getattr(importlib.import_module(f"results.commands.{module}"), name)(**options))
    except (BadFile, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        warn(" ".join(reason(error).splitlines()))
        return BAD


def _command(function: str, purpose: str, *params: click.Parameter) -> click.Command:
    """The command has the name of its function, or the name of its module if the function is `main`."""
    module, _, name = function.partition(":")
    name = module if name == "main" else name.rstrip("_")
    return click.Command(name, callback=partial(_call, function), params=[*params, RESULTS], help=purpose)


def _age(text: str) -> timedelta:
    match = re.fullmatch(r"(\d{1,5})([mhdw])", text, re.ASCII)
    if not match:
        raise click.BadParameter(f"{text!r} is no age; for example 90m, 12h, 7d or 4w")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


@click.pass_context
def _everywhere(context: click.Context, results: Path) -> None:
    """`--results DIR` before the command means the same as after it."""
    context.default_map = {name: {"results": results} for name in COMMANDS.commands}


COMMANDS: Final = click.Group(
    "results",
    help="Stored runs in the terminal and in the browser; compared, merged, pruned, exported.",
    params=[RESULTS],
    callback=_everywhere,
    commands=[
        _command(
            "listing:list_", "The stored runs, oldest first.", FLAG(["--json"], help="one JSON object a line and run")
        ),
        _command(
            "listing:show",
            "A run's matrix again, or the story of one trial or lane.",
            RUN,
            Argument(["of"], metavar="[TRIAL|LANE]", required=False, help="of this trial or this lane the story"),
        ),
        _command(
            "listing:open_",
            "The page of a run or of a trial, in the browser.",
            RUN,
            Argument(["trial"], required=False, help="a trial's name, or the beginning of it"),
        ),
        _command("listing:load", "Grants and operations of a run by backend, and the CPU time of each part.", RUN),
        _command(
            "digest:compare_",
            "Two runs, cell by cell: what became better or worse from run A to run B.",
            Argument(["before"], metavar="A", help=NAMING),
            Argument(["after"], metavar="B", help="likewise"),
            FLAG(["--all"], help="tell of what is the same, too"),
            Option(["--json", "form"], flag_value="json", help="print one JSON object"),
            Option(["--markdown", "form"], flag_value="markdown", help="Markdown, for the summary of a CI job"),
            Option(["--html"], type=PATH, metavar="FILE", help="write a page, too"),
        ),
        _command(
            "redraw:scorecard_",
            "May I use this lock where lost data costs money? One page.",
            Argument(["lock"], help="its name, the beginning of it, or what the run's page calls it"),
            Argument(["runs"], nargs=-1, metavar="[RUN]...", help=f"{NAMING}; by default the last one"),
            Option(["--beside"], metavar="LOCK2", help="another lock, side by side"),
            Option(["-o", "--output"], type=PATH, metavar="FILE", help="default: in the folder of the last run"),
            FLAG(["--without-links"], help="for a file to be sent to somebody"),
        ),
        _command("certificate:main", "May we go there? Again from what a run with --from and --to stored.", RUN),
        _command("certificate:verify", "A certificate again, from the histories that it rests on.", CERTIFIED),
        _command(
            "merge:main",
            "The shards of a run as one run. Damaged trials are taken along, and named.",
            Argument(["out"], type=PATH, help="a new folder, or one that was merged before"),
            Argument(["runs"], nargs=-1, required=True, metavar="RUN...", help=NAMING),
            FLAG(["--force"], help="also runs of different seeds, versions or commands"),
        ),
        _command(
            "prune:main",
            "Remove old runs, but none that an option names, that failed, is damaged or still going on.",
            Option(["--keep"], type=click.IntRange(0), metavar="N", help="keep the last N"),
            Option(["--younger-than"], type=_age, metavar="AGE", help="keep what began since: 90m, 12h, 7d, 4w"),
            Option(["--keep-run", "named"], multiple=True, metavar="RUN", help="keep this one"),
            FLAG(["--failed-too"], help="also remove runs that failed"),
            FLAG(["--dry-run"], help="say what would be removed, remove nothing"),
            FLAG(["--yes"], help="do not ask"),
        ),
        _command(
            "serve:main",
            "Serve the stored runs to a browser on this machine, read only, until Ctrl-C.",
            Option(["--port"], type=click.IntRange(0, 65535), default=8642, help="8642; 0: any that is free"),
            FLAG(["--open"], help="open the browser as well"),
        ),
        _command(
            "redraw:export",
            "A trial, or a run's matrix, as one HTML file to send to somebody.",
            OF,
            Option(["-o", "--output"], type=PATH, metavar="FILE", help="default: the name of what is exported"),
        ),
        _command(
            "digest:main",
            "A run in a page of Markdown, for the summary of a CI job.",
            RUN,
            Option(["--against"], metavar="PREVIOUS", help="an earlier run to compare it with"),
        ),
        _command("redraw:redraw", "Draw a run's pages again, of an older format too.", RUN),
        _command("redraw:rejudge", "A run's histories under today's checkers, and what they say differently.", OF),
        click.Command("schema", callback=partial(_call, "schema:main"), help="The JSON Schema of summary.json."),
    ],
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status."""
    return status_of(COMMANDS, "python -m results", arguments)


if __name__ == "__main__":
    to_the_end(main)
