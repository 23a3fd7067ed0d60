"""How a command of checkers and results ends."""

import gc
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

import click

BAD: Final = 2
"""The exit status of bad usage and bad input, and of a command that was cut short."""


def status_of(command: click.Command, name: str, arguments: Sequence[str] | None = None) -> int:
    """The exit status of a command that is called by this name; arguments: None for those of this process."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        with command.make_context(name, [*given], help_option_names=["-h", "--help"], max_content_width=120) as context:
            return int(command.invoke(context))
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Exit as end:
        return end.exit_code


def to_the_end(command: Callable[[list[str]], int]) -> NoReturn:
    """Exit with the status of a command that is given the arguments of this process.

    Characters that the output does not have are spelled out. The status is `BAD` where the reader went away, somebody
    pressed Ctrl-C, or a bug of ours ends it: Python's own 1 would mean "worse", or "invalid".
    """
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - closed by whoever started us (`>&-`)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            status = command(sys.argv[1:])
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            status = BAD
        except BrokenPipeError:
            raise
        except Exception:  # noqa: BLE001 - told in full
            traceback.print_exc()
            status = BAD
        finally:
            sys.stdout.flush()  # now, where it can be caught: help too ends with what is still to be written
    except BrokenPipeError:
        # Whoever read us has seen enough; nothing more can be said, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = BAD
    gc.freeze()  # else all that was imported would be searched for garbage once more, which takes as long as to import
    sys.exit(status)
