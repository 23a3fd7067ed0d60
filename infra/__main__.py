"""`python -m infra COMMAND`: the machine and its clusters by hand.

Exit status: 0 done, 1 failed, 2 usage, 3 not possible here.
"""

import importlib
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

import click
from click import Argument, Option

from infra.backends import BACKENDS
from infra.docker import machine
from infra.errors import Trouble

FLAG: Final = partial(Option, is_flag=True)
KNOWN: Final = ", ".join(BACKENDS)
ENV: Final = Option(["--env"], metavar="NAME", help="which environment, where there are several")
NODE: Final = Argument(["node"])


def _call(function: str, **options: object) -> int:
    """Load a `module:function` of `infra` and call it; returns its exit status."""
    module, _, name = function.partition(":")
    try:
        return int(getattr(importlib.import_module(f"infra.{module}"), name)(**options))
    except Trouble as trouble:
        machine.say(str(trouble))
        return trouble.status
    except KeyboardInterrupt:
        return 130
    finally:
        sys.stdout.flush()  # now, where the error of a closed output can be caught


def _command(name: str, purpose: str, *params: click.Parameter) -> click.Command:
    """name: NAME=MODULE:FUNCTION, or just the NAME of a function in `infra.commands`."""
    name, _, function = name.partition("=")
    return click.Command(name, callback=partial(_call, function or f"commands:{name}"), params=[*params], help=purpose)


COMMANDS: Final = click.Group(
    "infra",
    help="The machine and its clusters by hand.",
    commands=[
        _command(
            "doctor=docker.doctor:main",
            "What a run needs on this machine: what is there, what is not, and why.",
            FLAG(["--fix", "repair"], help="repair it: install, start, build"),
            FLAG(["--all"], help="with --fix: also the images that the first run would build"),
            FLAG(["--tests"], help="with --fix: also the browser of the project's own tests"),
            FLAG(["--image"], help="with --fix, in a checkout: also the image of fencepost itself"),
        ),
        _command("versions=docker.sources:main", "Versions that can be had here, from where, and how to ask for them."),
        _command("faults=faults.all_faults:main", "Every fault, and the backends that it can be done to."),
        _command(
            "planted=docker.servers_with_bugs:main",
            "Servers with a bug planted in them: certify an upgrade to one, and the certificate must name it.",
        ),
        _command(
            "up",
            "Bring up an environment that stays until `down`, or add backends to the one there is.",
            Argument(["backends"], nargs=-1, help=f"of {KNOWN}; all without a password if none"),
            Option(["--version-of"], multiple=True, metavar="BACKEND=VERSION", help="etcd=3.4 or valkey=8; repeatable"),
            Option(["--shape"], multiple=True, metavar="BACKEND=SHAPE", help="etcd=five: five members; repeatable"),
            Option(["--env"], metavar="NAME", help="name of the environment (by-hand)"),
        ),
        _command("status", "Environments, their nodes, versions, leaders, links and faults.", ENV),
        _command("logs", "What a node, the store or toxiproxy wrote, with times.", NODE, ENV),
        _command(
            "fault=faults.manual:main",
            "Do a fault to an environment (`up` makes one), or a plan with all its faults.",
            Argument(["name"], required=False, help="as `faults` lists them"),
            Argument(["backend"], required=False, help=f"of {KNOWN}"),
            Option(["--set", "chosen"], multiple=True, metavar="OPTION=VALUE", help="instead of chance; JSON"),
            Option(["--for", "seconds"], type=float, metavar="SECONDS", help="heal it after so long"),
            Option(["--seed"], type=int, default=1, help="what chance starts from (1)"),
            Option(["--pid", "process"], help="your client's process, for faults on workers"),
            Option(["--ttl"], type=float, default=2.0, help="seconds that your lock lives (2), for faults on workers"),
            Option(["--plan"], metavar="FILE", help="a plan, instead of NAME and BACKEND; it heals what it does"),
            ENV,
        ),
        _command(
            "cut",
            "Cut the link between two ends (c1, redis1, etcd2, store, ...) until `heal`.",
            Argument(["a"]),
            Argument(["b"]),
            Option(["--how"], type=click.Choice(["refuse", "drop", "hold"]), default="drop", help="drop if not said"),
            FLAG(["--one-way"], help="only the bytes from A to B (drop and hold)"),
            ENV,
        ),
        _command("pause", "Freeze a node's processes; its connections stay open.", NODE, ENV),
        _command("resume", "Let a paused node go on.", NODE, ENV),
        _command("kill", "SIGKILL a node; its data stays for `start`.", NODE, ENV),
        _command("start", "Start a node that was killed, on the data that it had.", NODE, ENV),
        _command("heal", "Undo every fault, whoever did it. Status 1: something is left.", ENV),
        _command(
            "down",
            "Remove the environments made by hand, and those whose owner is gone.",
            Option(["--env"], metavar="NAME", help="remove this one, whoever owns it"),
            FLAG(["--all"], help="remove those of running processes as well"),
        ),
    ],
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status. Exits with status 1 when the reader of our output has gone."""
    try:
        return int(COMMANDS.main(argv, "python -m infra", standalone_mode=False, help_option_names=["-h", "--help"]))
    except click.ClickException as error:
        error.show()
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
