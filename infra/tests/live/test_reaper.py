import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen
from typing import IO

import pytest
from docker import DockerClient

from infra.cluster import container
from infra.docker import client as engine_client
from infra.docker import reaper
from infra.network.topology import STORE
from infra.own_environment import OwnEnvironment
from infra.tests.fakes import HANGS_AFTER
from infra.tests.live.hurting import await_

STAYS = """
import sys
from infra.own_environment import OwnEnvironment
kept = [OwnEnvironment.start(name=name, keep=True) for name in sys.argv[2:]]
environment = OwnEnvironment.start(name=sys.argv[1])
print(environment.store_dsn(None), flush=True)
sys.stdin.read()
"""

HURTS = """
import sys
from dataclasses import replace
from infra.own_environment import OwnEnvironment
from infra.faults.plan import compile_plan
from infra.faults.all_faults import FAULTS
from infra.tests.environments import target_of
from infra.tests.live.hurting import be_patient
be_patient(setattr)
environment = OwnEnvironment.start(name=sys.argv[1])
environment.ensure("redis")
target = target_of(environment, "redis")
lasting = [f for f in FAULTS.values() if f.spans and "workers" not in f.needs and not f.applies("redis")]
lasting = [f for f in lasting if f.kind != "refuse"]  # a write proves that a replica was left behind
# Links last: what is done to a server is proven through them.
kinds = {fault.kind: fault.name for fault in lasting}
done = []
for number, (kind, name) in enumerate(reversed(kinds.items())):
    step = compile_plan([name], 1, "redis", 1.0).steps[0]
    if step.injection("redis").apply(replace(target, by=f"step{number}", alone=not number)):
        done.append(kind)
print(*done, flush=True)
sys.stdin.read()
"""

FAILS_HALF_WAY = """
import sys
from infra.docker import compose
from infra.own_environment import OwnEnvironment
up = compose.up
def fail(settings, services):
    up(settings, services[:1])
    raise KeyboardInterrupt
compose.up = fail
OwnEnvironment.start(name=sys.argv[1])
"""


class TestWithAnEngine:
    @pytest.fixture
    def client(self) -> DockerClient:
        return engine_client.connect()

    @pytest.fixture
    def name(self, request: pytest.FixtureRequest, client: DockerClient) -> Iterator[str]:
        """The name of an environment, which is removed in the end, and with it that of the name with `-kept`."""
        name = f"fp-test-{os.getpid()}-{abs(hash(request.node.name)) % 10**6}"
        yield name
        for each in (name, f"{name}-kept"):
            reaper.remove(client, each)

    def test_a_process_killed_amidst_faults_of_every_kind_leaves_nothing(self, client: DockerClient, name: str) -> None:
        with _process(HURTS, name) as (_, said):
            assert {"cut", "pause", "clock", "disk", "failover"} <= set(said.readline().split())
            client.api.pause(f"{name}-{STORE}-1")
            assert name not in reaper.reap(client)
            assert _left(client, name) > 2
        await_(lambda: _reaped(client, name))

    def test_an_environment_whose_start_was_not_finished_is_reaped(self, client: DockerClient, name: str) -> None:
        with _process(STAYS, name):
            await_(lambda: _left(client, name) > 0, every=0.0)
        await_(lambda: _reaped(client, name))

    def test_a_failed_start_leaves_nothing(self, client: DockerClient, name: str) -> None:
        with _process(FAILS_HALF_WAY, name) as (process, _):
            assert process.wait(HANGS_AFTER) != 0
        assert _left(client, name) == 0

    def test_a_terminated_process_removes_only_environments_that_are_not_kept(
        self, client: DockerClient, name: str, environment: OwnEnvironment
    ) -> None:
        with _process(STAYS, name, f"{name}-kept") as (process, said):
            theirs, ours = said.readline().strip(), environment.store_dsn(None)
            assert theirs.rpartition("@")[2] != ours.rpartition("@")[2]
            process.terminate()
            assert process.wait(HANGS_AFTER) == 128 + signal.SIGTERM
        assert _left(client, name) == 0
        assert f"{name}-kept" not in reaper.reap(client)
        assert container.states(client, f"{name}-kept") == {"toxiproxy": "running", STORE: "running"}


@contextmanager
def _process(code: str, *names: str) -> Iterator[tuple[Popen[str], IO[str]]]:
    """A process that runs this code, and its output. The process is killed at the end."""
    with Popen([sys.executable, "-c", code, *names], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process, process.stdout
        finally:
            process.kill()


def _reaped(client: DockerClient, name: str) -> bool:
    """Whether nothing is left of this environment after we reaped, or another process that started an environment."""
    # The engine may still be creating what the killed process asked for last.
    reaper.reap(client)
    return _left(client, name) == 0


def _left(client: DockerClient, name: str) -> int:
    return sum(found.things for found in reaper.find(client) if found.name == name)
