"""How a command of checkers and results ends: its exit status."""

import gc
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

import click

BAD: Final = 2  # the exit status of bad usage and bad input, and of a command that was cut short


def status_of(command: click.Command, name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a command under this name, and return its exit status. arguments: None for those of this process."""
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

    Characters that the output cannot encode are escaped. The status is `BAD` if the reader of the output went away,
    somebody pressed Ctrl-C, or a bug of ours ends the command: Python's own 1 would mean "worse", or "invalid".
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
            sys.stdout.flush()  # here an error can be caught: even help ends with unwritten output
    except BrokenPipeError:
        # The reader of the output went away: nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = BAD
    gc.freeze()  # else all imported modules would be searched for garbage once more, which takes as long as to import
    sys.exit(status)
