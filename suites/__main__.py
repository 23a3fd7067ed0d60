"""`python -m suites` lists what there is to run: suites, locks with their claims and hazards, faults, profiles.

It starts nothing. With a command's name it runs that command; `--help` lists them, and each has a --help of its own.
"""

import importlib
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

import click
from click import Argument, Option

from checkers.command.exit_status import BAD, status_of, to_the_end
from infra.backends import BACKENDS
from infra.docker import machine
from infra.errors import Trouble
from results.__main__ import FLAG, PATH, RESULTS
from results.storage.files import BadFile
from results.text import plain
from suites.selection.bad_option import BadOption

COUNT: Final = partial(Option, ["--count"], type=int, show_default=True)
SEED: Final = partial(Option, ["--seed"], type=int, default=1, show_default=True)
BACKEND: Final = Option(["--backend"], multiple=True, type=click.Choice([*BACKENDS]), help="only these; repeatable")
SHAPE: Final = Option(["--shape"], multiple=True, metavar="BACKEND=SHAPE", help="as for pytest suites/; repeatable")
PYTEST: Final = Argument(["rest"], nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST OPTIONS]...")
"""What is passed on to pytest. The command needs `PASSING` as well."""
PASSING: Final = {"ignore_unknown_options": True, "help_option_names": ["--help"]}


def _call(function: str, *given: object, **options: object) -> int:
    """The exit status of `main` of a module of `suites.commands`, which is loaded now. `BAD`: interrupted."""
    try:
        return int(importlib.import_module(f"suites.commands.{function}").main(*given, **options))
    except Trouble as trouble:
        machine.say(str(trouble))
        return trouble.status
    except (BadOption, BadFile, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        machine.say(plain(str(error)))
        return BAD
    except KeyboardInterrupt:
        print(f"{click.get_current_context().info_name}: interrupted", file=sys.stderr)
        return BAD


def _command(name: str, purpose: str, *params: click.Parameter) -> click.Command:
    return click.Command(name, callback=partial(_call, name.replace("-", "_")), params=[*params], help=purpose)


def _nightly(name: str, purpose: str, *params: click.Parameter) -> click.Command:
    versions = "only this version of it; repeatable, for one backend too (all series that can be had here)"
    tried = (
        PYTEST,
        Option(["--profile"], default="nightly", help="how much to try (nightly)"),
        Option(["--backend"], multiple=True, metavar="NAME", help="only this one; repeatable"),
        Option(["--version-of"], multiple=True, metavar="BACKEND=VERSION", help=versions),
        Option(["--minutes"], type=float, default=20.0, help="about how long a shard may take (20)"),
        RESULTS,
    )
    call = partial(_call, "nightly", name)
    return click.Command(name, callback=call, params=[*params, *tried], help=purpose, context_settings=PASSING)


_BEFORE: Final = "a night before; repeatable, older ones after it: what failed there and was not judged since is known"
PREVIOUS: Final = Option(["--previous"], multiple=True, metavar="RUN", help=_BEFORE)
SUMMARY: Final = Option(["--summary"], type=PATH, metavar="FILE", help="append the summary in Markdown to it")

NIGHTLY: Final = click.Group(
    "nightly",
    help="""The whole matrix, compared with the night before.

    Exit status: 0 nothing worse than the night before, and all was judged; 1 red: a regression, a new violation, a
    known weakness that must show and does not or, with no night before, a failing verdict; 2 usage, bad input,
    interrupted; 3 not red, but a shard, trial or verdict is missing. A shard alone: 0 at its end, else pytest's status.
    """,
    commands=[
        _nightly(
            "run",
            "All shards that are still to be run, one after another, then `conclude`.",
            FLAG(["--resume"], help="go on with the last night, if it was interrupted"),
            PREVIOUS,
            SUMMARY,
        ),
        _nightly("plan", "The names of the shards.", FLAG(["--json"], help="as a JSON list")),
        _nightly("shard", "One shard.", Argument(["name"], help="of the plan")),
        _nightly(
            "conclude",
            "What comes of the shards.",
            Argument(["shards"], type=PATH, metavar="DIR", help="where the shards' run folders are, at any depth"),
            Argument(["into"], type=PATH, metavar="RUN", help="the run to make of them"),
            PREVIOUS,
            SUMMARY,
        ),
    ],
)


@click.pass_context
def _overview(context: click.Context) -> int:
    return 0 if context.invoked_subcommand else _call("overview")


COMMANDS: Final = click.Group(
    "suites",
    help="Without a command: all suites, locks with their claims and hazards, faults and profiles.",
    invoke_without_command=True,
    callback=_overview,
    commands=[
        NIGHTLY,
        _command(
            "soak",
            "Random plans of overlapping faults, each of which must leave all clean. Status 1: one did not.",
            COUNT(default=200, help="how many plans, those done before included"),
            SEED(help="of the first plan; the others follow"),
            BACKEND,
            SHAPE,
            Option(["--done"], type=PATH, default="soak.jsonl", help="what was done; those are not done again"),
            Option(["--failed"], type=PATH, default="soak-failed", help="where plans that failed are written"),
        ),
        _command(
            "measure",
            "How long each fault takes to apply and to heal.",
            COUNT(default=3, help="seeds"),
            BACKEND,
            SHAPE,
            Option(["--fault"], multiple=True, metavar="NAME", help="only these; repeatable"),
        ),
        _command(
            "literature",
            "Measure what the literature says. Status 1: a statement got no answer.",
            SEED(help="of the first trials"),
            Option(["--only"], metavar="TEXT", default="", help="only statements that contain this text"),
        ),
        _command(
            "curves",
            "Measure P(two inside) against the length of a pause and the jump of a clock.",
            COUNT(default=1, help="trials for each point"),
        ),
        _command(
            "mutants",
            "Locks broken on purpose, which must be found out. Status 1: one was missed, or a correct lock failed.",
            FLAG(["--run", "tried"], help="try them, or only those named"),
            FLAG(["--score"], help="try all of them under the faults of a default run"),
            FLAG(["--schedules"], help="try all of them under the schedules of other suites"),
            Option(["--sample"], type=int, metavar="N", help="of these two: only so many, spread evenly"),
            FLAG(["--missed"], help="of these two: only what no seed has caught so far"),
            SEED(help="of their runs"),
            Argument(["names"], nargs=-1, metavar="[NAME]..."),
        ),
        _command(
            "track-record",
            "What certificates say of releases known to be bad, and of those that mended them. Status 1: one errs.",
            Option(["--seeds"], type=int, default=1, show_default=True, help="how many certificates of each upgrade"),
            Argument(["names"], nargs=-1, metavar="[BUG]..."),
        ),
        _command(
            "repeat",
            "The README's two commands again and again, to see whether they are ever red.",
            Argument(["command"], type=click.Choice(["certify", "test"])),
            Option(["--count"], type=int, default=1, help="how many green ones there must be, those before included"),
            Option(["--commit"], default="HEAD", help="what is tried"),
        ),
        _command(
            "readme",
            "Write the parts of the README files that are made from the code, or from what was measured.",
            FLAG(["--check"], help="write nothing; status 1: something is out of date"),
        ),
    ],
)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    return status_of(COMMANDS, "python -m suites", argv)


if __name__ == "__main__":
    to_the_end(main)
