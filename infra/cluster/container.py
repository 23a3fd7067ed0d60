"""The container of a node, or of any service: its state, what it was made from, and what can be done to it."""

import contextlib
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from docker import DockerClient
from docker.errors import APIError, NotFound

from infra.cluster import clock_skew
from infra.cluster.exit_reason import last_words
from infra.cluster.migration import Carry
from infra.docker.client import TIMEOUT, failing
from infra.docker.compose import BOOTED, containers
from infra.docker.images import PACKAGER
from infra.errors import Failed
from infra.network import topology
from infra.waiting import comes_true

State = Literal["running", "paused", "stopped"]

STOPS_WITHIN: Final = 10
"""Seconds for an orderly end, before it is killed."""
LAST: Final = 5.0
"""Seconds before its end in which a process may write why it ends. What it wrote earlier is about something else."""
VENDOR: Final = "org.opencontainers.image.vendor"
"""Label of images of others: https://specs.opencontainers.org/image-spec/annotations/"""
_CONTAINER: Final = re.compile(r"[0-9a-f]{64}")
"""The id of a container, in the names of control groups."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
"""The ticks of a second; /proc counts CPU time in ticks."""
DYING: Final = "is zombie"
"""The engine's error when it no longer waits for a killed process to end. The process may end all the same."""
GOES_ON: Final = "not paused"
"""The engine's error for a process that goes on. It may call that paused for a moment: news of its pause come late."""


class End(NamedTuple):
    """How a process ended: when (ns of CLOCK_MONOTONIC), its exit status, and why, by the end of its log."""

    at: int
    status: int
    words: str


class ServerProcess(Protocol):
    """A server that can be started, frozen and ended from outside. Every verb raises Failed when it is not done.

    A subclass does not override what we cannot know of its server, or cannot do to it.
    """

    def state(self) -> State: ...

    def start(self) -> None:
        """Start the server, which is down; its clock is already set."""

    def pause(self) -> None:
        """Freeze it: it goes silent, its connections stay open."""

    def resume(self) -> None: ...

    def end(self, *, orderly: bool) -> None:
        """SIGKILL the server (orderly: SIGTERM first), and wait until it is dead. It must not be paused."""

    def wipe(self) -> None:
        """Remove the data of the server, which is down."""

    def remake(self, image: str) -> None:
        """Start another image on the data of the server, which is down."""

    def carry(self, image: str) -> Carry | None:
        """What carries its data to this image; None if the image starts on the data as they are."""
        del image
        return None

    def image(self) -> str:
        """Name of the image that it runs, "" where we cannot know it."""
        return ""

    def made_from(self) -> dict[str, Any]:
        """Its image (name, digest, who packaged the server), its command, and its settings without passwords."""
        return {}

    def logs(self) -> bytes:
        """Everything that it wrote to its outputs, with times."""
        return b""

    def last_end(self) -> End | None:
        """Its last end; None if it has not ended, or the engine could not start it, or we cannot know."""
        return None

    def has_clock(self) -> bool:
        """Whether its clock can be moved."""
        return False

    def set_clock(self, skews: Sequence[clock_skew.Skew]) -> None:
        """Set its clock to the sum of these skews."""


@dataclass(eq=False, slots=True)
class Container(ServerProcess):
    """anew: creates and starts the container from an image of that name. empty: removes what is on its disk. free: ends
    whatever holds its processes, which cannot die before that.
    """

    client: DockerClient
    node: str
    container: str
    anew: Callable[[str], None]
    empty: Callable[[], None]
    free: Callable[[], None]

    def state(self) -> State:
        """Raises Failed when it is gone."""
        status = self._ask(self.client.api.inspect_container)["State"]["Status"]
        return "paused" if status == "paused" else "running" if status == "running" else "stopped"

    def start(self) -> None:
        self._ask(self.client.api.start)

    def pause(self) -> None:
        self._ask(self.client.api.pause)

    def resume(self) -> None:
        self._ask(self.client.api.unpause, passes=GOES_ON)

    def end(self, *, orderly: bool) -> None:
        with ThreadPoolExecutor(max_workers=1) as pool:  # at once: a process that is freed first would run for a moment
            ending = pool.submit(self._stop if orderly else self._kill)
            self.free()
            ending.result()

    def wipe(self) -> None:
        self.empty()

    def remake(self, image: str) -> None:
        self.anew(image)

    def carry(self, image: str) -> Carry | None:
        backend = topology.kind_of(self.node)
        if not backend.migration or self.node not in backend.members:
            return None
        carry = Carry(self.client, self.container, self.image(), image, backend.migration)
        return carry if carry.needed() else None

    def image(self) -> str:
        return str(self._ask(self.client.api.inspect_container)["Config"]["Image"])

    def made_from(self) -> dict[str, Any]:
        return _made_from(self._ask(self.client.api.inspect_container))

    def logs(self) -> bytes:
        return bytes(self._ask(self.client.api.logs, timestamps=True))

    def last_end(self) -> End | None:
        """Reckons with the engine's clock alone, which may differ from ours."""
        state = self._ask(self.client.api.inspect_container)["State"]
        if state["Status"] != "exited" or state["Error"]:
            return None
        ended = datetime.fromisoformat(state["FinishedAt"])
        with failing(self.node):
            ago = datetime.fromisoformat(self.client.api.info()["SystemTime"]) - ended
        log = bytes(self._ask(self.client.api.logs, timestamps=True, since=ended.timestamp() - LAST))
        words = "the kernel ended it for want of memory" if state["OOMKilled"] else last_words(log)
        return End(time.monotonic_ns() - max(round(ago.total_seconds() * 1e9), 0), state["ExitCode"], words)

    def has_clock(self) -> bool:
        return clock_skew.movable(self.client, self.container)

    def set_clock(self, skews: Sequence[clock_skew.Skew]) -> None:
        comes_true(lambda: self.state() != "paused", TIMEOUT)
        clock_skew.write(self.client, self.container, skews)

    def _stop(self) -> None:
        self._ask(self.client.api.stop, timeout=STOPS_WITHIN)

    def _kill(self) -> None:
        self._ask(self.client.api.kill, "SIGKILL", passes=DYING)
        self._ask(self.client.api.wait, timeout=TIMEOUT)

    def _ask(self, verb: Callable[..., Any], *args: object, passes: str | None = None, **options: object) -> Any:
        """passes: words of an error that is none."""
        try:
            return verb(self.container, *args, **options)
        except NotFound as error:
            raise Failed(f"{self.node}: its container {self.container} is gone") from error
        except APIError as error:
            if passes is None or passes not in str(error.explanation):
                raise Failed(f"{self.node}: {error.explanation}") from error


def made_from(client: DockerClient, container: str) -> dict[str, Any]:
    """As `ServerProcess.made_from`, of a container that is no node. Raises Failed."""
    with failing(container):
        return _made_from(client.api.inspect_container(container))


def _made_from(inspected: Mapping[str, Any]) -> dict[str, Any]:
    config = inspected["Config"]
    labels = config["Labels"] or {}
    settings = dict(pair.partition("=")[::2] for pair in config["Env"] or ())
    return {
        "image": config["Image"],
        "digest": inspected["Image"],
        "packager": labels.get(PACKAGER) or labels.get(VENDOR) or "",
        "command": [*(config["Entrypoint"] or ()), *(config["Cmd"] or ())],
        "settings": {
            name: value for name, value in sorted(settings.items()) if name != "PATH" and "PASSWORD" not in name.upper()
        },
    }


def states(client: DockerClient, environment: str) -> Mapping[str, State]:
    """Service -> state of every container of an environment, in one question."""
    return {
        service: container["State"] if container["State"] in ("running", "paused") else "stopped"
        for service, container in containers(client, environment).items()
    }


def cpu_seconds(client: DockerClient, environment: str) -> dict[str, float]:
    """Service -> CPU seconds of its processes, and of children that they have waited for. Empty where the engine's
    processes cannot be seen from here. The engine itself takes a second to tell this for one container.
    """
    services = {container["Id"]: service for service, container in containers(client, environment).items()}
    used: dict[str, float] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            groups = (process / "cgroup").read_text()
            service = next((services[name] for name in _CONTAINER.findall(groups) if name in services), None)
            if service is not None:
                times = (process / "stat").read_text().rpartition(")")[2].split()[11:15]
                used[service] = used.get(service, 0.0) + sum(map(int, times)) / _TICKS
    return used


def replaced(client: DockerClient, environment: str, kept: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The nodes that run another image than they are meant to: node -> (image that it runs, image that is meant).

    kept: node -> the image that is meant, if that is not the one that its backend was booted with.
    """
    others = {}
    for service, container in sorted(containers(client, environment).items()):
        meant = container["Labels"].get(BOOTED) and kept.get(service, container["Labels"][BOOTED])
        if meant and container["Image"] != meant:
            # The list has an id if the name means a newer image by now. So ask for the name that it was made from.
            image = client.api.inspect_container(container["Id"])["Config"]["Image"]
            if image != meant:
                others[service] = image, meant
    return others
