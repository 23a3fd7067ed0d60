"""Who an environment belongs to, as a label that outlives its owner: `machine/boot/pid namespace/pid/start`.

A later process may get the same number, so the label also has the time at which the process started, and the boot that
this time belongs to. If the owner is in a container of the engine that has its environment, the label ends with
`/container`: the engine tells everybody whether that one runs. Only what is certainly dead is reaped.
"""

import contextlib
import os
import re
import socket
import subprocess
from pathlib import Path
from typing import Final

from infra.suggestions import command

KEPT: Final = "kept"  # owner of an environment that was made to stay: only `python -m infra down` removes it


def this_process(container: str = "") -> str:
    """container: see `client.own_container`."""
    return "/".join((label_of(os.getpid()), *([container] if container else ())))


def label_of(pid: int) -> str:
    """The label of a process that we can see. The label is a different one after the process has ended."""
    return "/".join((_machine(), _boot(), _namespace(), str(pid), _started(pid)))


def is_dead(label: str) -> bool:
    """Whether we see that the owner is gone. Labels that we do not understand belong to somebody else: False."""
    if label.count("/") not in (4, 5):
        return False
    machine, boot, namespace, pid, started = label.split("/")[:5]
    if machine != _machine() or not pid.isdecimal():
        return False
    if boot != _boot():
        return not container_of(label)  # the engine knows; outside it there may be a machine of the same name
    return namespace == _namespace() and started != _started(int(pid))


def container_of(label: str) -> str:
    """The container of the owner, empty if it is in none of the engine's."""
    container = label.rpartition("/")[2]
    return container if label.count("/") == 5 and re.fullmatch("[0-9a-f]{64}", container) else ""


def describe(label: str, *, dead: bool) -> str:
    """The owner for a person to read."""
    if label == KEPT:
        return f"kept until `{command('down')}`"
    pid = label.split("/")[3] if label.count("/") in (4, 5) else "?"
    where = f" in container {container[:12]}" if (container := container_of(label)) else ""
    return f"process {pid}{where}" + ", which is gone" * dead


def _machine() -> str:
    with contextlib.suppress(OSError):
        if identity := Path("/etc/machine-id").read_text().strip():
            return identity
    return socket.gethostname()


def _boot() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return "-"  # without /proc (macOS) the start time of a process includes the date


def _namespace() -> str:
    with contextlib.suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink()).removeprefix("pid:")
    return "-"


def _started(pid: int) -> str:
    """When a process started, in whatever unit the system has; empty when no process has this number."""
    if not Path("/proc/self/stat").exists():
        ps = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, check=False, text=True)
        return "-".join(ps.stdout.split())
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The name, in parentheses, may hold spaces; state is the first word after it and the start is the 22nd of all.
    words = stat.rpartition(")")[2].split()
    return "" if words[0] in "ZX" else words[19]
