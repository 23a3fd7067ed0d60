"""`fencepost`: the commands of all rooms in one, from a checkout or installed as a package.

The exit status is that of the room's command; for `certify` and `upgrade` that of pytest, as the suite sets it.
"""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

import click
from click.shell_completion import get_completion_class, shell_complete

from checkers.__main__ import judge
from checkers.command.exit_status import status_of, to_the_end
from infra.__main__ import COMMANDS as INFRA
from infra.backends import BACKENDS
from infra.docker.machine import say
from infra.errors import NotPossible
from results.__main__ import COMMANDS as RESULTS
from suites.__main__ import COMMANDS as SUITES
from suites.__main__ import PASSING, PYTEST

COMPLETE: Final = "_FENCEPOST_COMPLETE"  # variable by which a shell asks for completions
HERE: Final = Path(__file__).parents[1]


@click.group(commands=[*INFRA.commands.values(), RESULTS, SUITES])
def fencepost() -> None:
    """Which promises of a distributed lock survive which faults, on which version?"""


fencepost.add_command(judge, "check")


@fencepost.command(context_settings=PASSING, params=[PYTEST])
def certify(rest: Sequence[str]) -> int:
    """Try every lock, or what the options of `pytest suites/` select.

    `fencepost certify -h` lists these options; suites/README.md in the repository explains them.
    """
    return _pytest(rest)


@fencepost.command(context_settings=PASSING)
@click.argument("old", metavar="BACKEND=OLD")
@click.argument("new", metavar="BACKEND=NEW")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST OPTIONS]...")
def upgrade(old: str, new: str, rest: Sequence[str]) -> int:
    """May we go from this version to that one? A run with --from and --to, and its certificate.

    More options: `fencepost certify -h`. What a certificate says: results/README.md in the repository.
    """
    return _pytest(["--from", old, "--to", new, *rest])


def _pytest(words: Sequence[str]) -> int:
    """pytest's exit status. An installed package has no configuration of pytest, and must not take that of others."""
    import pytest

    if (HERE.parent / "pyproject.toml").is_file():
        return int(pytest.main([f"{HERE.name}/" if Path.cwd() == HERE.parent else str(HERE), *words]))
    alone = ["-c", os.devnull, "--rootdir", ".", "-p", "no:cacheprovider", "--import-mode=importlib", "-rfE"]
    return int(pytest.main([*alone, "-p", "suites.loader", str(HERE), *words]))


@fencepost.group()
def lock() -> None:
    """A lock of your own."""


@lock.command()
@click.argument("name")
@click.option("--backend", type=click.Choice([*BACKENDS]), required=True, help="where it runs")
def new(name: str, backend: str) -> int:
    """Write a skeleton of a lock to NAME.py, which runs as it is."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise click.UsageError(f"{name!r} is no name of a Python module")
    file, kind = Path(f"{name}.py"), "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    try:
        with file.open("x") as made:
            made.write((HERE / "commands" / "skeletons" / f"{backend}.txt").read_text().replace("MyLock", kind))
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from error
    print(f"{file}\ntry it: fencepost certify --lock {file}:{kind} --faults none,freeze-holder")
    return 0


@fencepost.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the script that completes `fencepost` in a shell."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    print(kind(fencepost, {}, "fencepost", COMPLETE).source())
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    try:
        return status_of(fencepost, "fencepost", arguments)
    except ModuleNotFoundError as error:
        say(f"{error.name} is missing; with all that runs locks: pip install 'fencepost[suite]'")
        return NotPossible.status


def run() -> NoReturn:
    """The console script."""
    if instruction := os.environ.get(COMPLETE):
        sys.exit(shell_complete(fencepost, {}, "fencepost", COMPLETE, instruction))
    to_the_end(main)


if __name__ == "__main__":
    run()
