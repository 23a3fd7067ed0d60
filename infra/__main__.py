"""`python -m infra COMMAND`: the machine and its clusters by hand.

Exit status: 0 done, 1 failed, 2 usage, 3 not possible here.
"""

import importlib
import sys
from collections.abc import Sequence

from infra import lifetime
from infra.docker import machine
from infra.errors import Trouble

COMMANDS = {
    "doctor": ("infra.docker.doctor:main", "what this machine has, lacks, and --fix"),
    "versions": (
        "infra.docker.versions:main",
        "versions of the backends that can be had here, and how to ask for them",
    ),
    "faults": ("infra.faults.all_faults:main", "every fault, and the backends that it can be done to"),
    "planted": ("infra.docker.servers_with_bugs:main", "servers with a bug planted in them, which the suite must find"),
    "up": ("infra.commands:up", "an environment that stays: Toxiproxy, the store and backends"),
    "status": ("infra.commands:status", "environments, their nodes, versions, leaders, links and faults"),
    "logs": ("infra.commands:logs", "what a node wrote"),
    "fault": ("infra.faults.manual:main", "do any fault, or a whole plan"),
    "cut": ("infra.commands:cut", "cut the link between two ends"),
    "pause": ("infra.commands:pause", "freeze a node"),
    "resume": ("infra.commands:resume", "let a paused node go on"),
    "kill": ("infra.commands:kill", "SIGKILL a node"),
    "start": ("infra.commands:start", "start a node that was killed"),
    "heal": ("infra.commands:heal", "undo everything that was done, whoever did it"),
    "down": ("infra.commands:down", "remove environments made by hand or left by the dead"),
}
"""Command -> `module:function` (arguments -> exit status), loaded when it is called, and what help says of it."""


def main(argv: Sequence[str]) -> int:
    """Call one command; returns its exit status."""
    name = argv[0] if argv else "--help"
    if name in ("-h", "--help"):
        print("usage: python -m infra COMMAND [-h] ...\n")
        for command, (_, purpose) in COMMANDS.items():
            print(f"  {command:<10} {purpose}")
        return 0 if argv else 2
    if name not in COMMANDS:
        print(f"fencepost: no command {name!r}; there are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    module, _, function = COMMANDS[name][0].partition(":")
    try:
        status: int = getattr(importlib.import_module(module), function)(argv[1:])
    except Trouble as trouble:
        machine.say(str(trouble))
        return trouble.status
    except KeyboardInterrupt:
        return 130
    return status


if __name__ == "__main__":
    lifetime.to_the_end(main)
