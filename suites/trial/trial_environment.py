"""Where the trials of one process run: an environment, made when it is first needed, and the fork servers."""

import time
from concurrent.futures import Future, ThreadPoolExecutor

from infra.environment import Environment
from infra.own_environment import OwnEnvironment
from infra.target.external_environment import ExternalEnvironment
from results.terminal.event_journal import Event, Tell, says
from suites.locks import registry
from suites.selection.selection import Selection
from suites.trial import target_cleanup
from suites.worker.pool import ForkServer


class TrialEnvironment:
    """The environment of one stage of an upgrade. The next trial after `leave` or `close` gets a new one."""

    def __init__(self, selection: Selection, stage: str, tell: Tell) -> None:
        self._selection = selection
        self._stage = stage
        self._tell = tell
        self._environment: Environment | None = None
        self._servers: dict[str, ForkServer] = {}
        self._aside = ThreadPoolExecutor(max_workers=1)
        self._left: list[Future[None]] = []

    def ready(self, backend: str) -> Environment:
        targets = self._selection.targets
        began, version = time.monotonic(), self._selection.version(backend, self._stage)
        new = self._environment is None or backend not in self._environment.clusters
        if new:
            self._tell(Event("boot", {"backend": backend, "version": version or ""}))
        if self._environment is None:
            self._environment = (
                ExternalEnvironment.beside(targets, self._selection.hooks, self._say)
                if targets
                else OwnEnvironment.start(say=self._say)
            )
        self._environment.ensure(backend, version)
        if new and backend in targets:
            locks = (lane.lock for lane in self._selection.lanes if lane.backend == backend and not lane.lock.via)
            target_cleanup.ask_admission(self._environment, backend, locks)
        if new:
            self._tell(Event("ready", {"backend": backend, "seconds": round(time.monotonic() - began, 1)}))
        return self._environment

    def server(self, backend: str) -> ForkServer:
        """The fork server of the workers of all locks on this backend."""
        if backend not in self._servers:
            names = {lane.lock_name for lane in self._selection.lanes if lane.backend == backend}
            self._servers[backend] = ForkServer(sorted(map(registry.spelling, names)))
        return self._servers[backend]

    def leave(self) -> None:
        """End the workers; the environment is removed while the next trial gets its own. Idempotent."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        if self._environment is not None:
            self._left.append(self._aside.submit(self._environment.close))
            self._environment = None

    def close(self) -> None:
        """End workers and environments and leave nothing behind. Idempotent. Raises Failed if something remains."""
        self.leave()
        while self._left:
            self._left.pop().result()

    def _say(self, line: str) -> None:
        self._tell(says(line))
