"""Whose an environment is, and whether he lives; its networks that cannot be made, or not be removed."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from subprocess import CalledProcessError
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest
from docker.errors import APIError

from checkers.tests.build import cases
from infra.docker import compose, owner, reaper
from infra.docker.compose import ComposeSettings
from infra.docker.subnets import Taken
from infra.errors import Failed


class TestOwner:
    def test_we_live(self) -> None:
        assert not owner.is_dead(owner.this_process())
        assert owner.describe(owner.this_process()) == f"process {os.getpid()}"

    def test_a_child_that_ended_is_dead(self) -> None:
        code = "from infra.docker import owner; print(owner.this_process())"
        label = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
        assert owner.is_dead(label)
        assert owner.describe(label).endswith("which is gone")

    @cases(
        "part, value, dead",
        (4, "1", True),  # our number, but started at another time: it was given away again
        (1, "another-boot", True),
        (0, "another-machine", False),
        (2, "another-container", False),
    )
    def test_only_what_is_certainly_dead_is(self, part: int, value: str, dead: bool) -> None:
        label = owner.this_process().split("/")
        label[part] = value
        assert owner.is_dead("/".join(label)) is dead

    @pytest.mark.parametrize("label", [owner.KEPT, "", "by somebody", "a/b/c/d/e"])
    def test_what_we_do_not_understand_is_not_ours(self, label: str) -> None:
        assert not owner.is_dead(label)


@pytest.mark.parametrize(
    ("age", "trouble", "tried"),
    [(3600, "network n has active endpoints", False), (1, "network n has active endpoints", True), (3600, "no", True)],
)
def test_the_irremovable_is_passed_over(monkeypatch: pytest.MonkeyPatch, age: float, trouble: str, tried: bool) -> None:
    """One network without anything in it, of an owner who is gone."""

    def refuse(_: str) -> None:
        raise APIError("403", explanation=trouble)

    made = (datetime.now(UTC) - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.123456789Z")
    network = {"Id": "n", "Created": made, "Labels": {reaper.ENV: "fp-1", reaper.OWNER: "gone"}}
    nothing: dict[str, Any] = {"containers": lambda **_: [], "volumes": lambda **_: {"Volumes": None}}
    api = SimpleNamespace(**nothing, networks=lambda **_: [network], remove_network=refuse)
    monkeypatch.setattr(owner, "is_dead", lambda _: True)
    monkeypatch.setattr(reaper, "_await_orphan", lambda _: None)
    removed: list[str] = []
    monkeypatch.setattr(reaper, "remove", lambda _, name: removed.append(name))
    said: list[str] = []
    client = cast("Any", SimpleNamespace(api=api))
    assert reaper.reap(client, said.append) == removed == (["fp-1"] if tried else [])
    assert len(said) == tried


@cases(
    "said, another",
    ("failed to create network: Pool overlaps with other one on this address space", True),
    ("Error response from daemon: network fp-1-abcd_n-zk2 not found", True),
    ("Error response from daemon: No such image: fencepost/redis:nowhere", False),
    ("write /var/lib/docker: no space left on device", False),
)
def test_another_subnet_is_tried_where_it_may_help(said: str, another: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> NoReturn:
        raise CalledProcessError(1, "docker compose", stderr=said.encode())

    monkeypatch.setattr("infra.docker.compose.DockerCompose.start", fails)
    with pytest.raises(Failed) as caught:
        compose.up(ComposeSettings("fp-1-abcd", 3, "kept", "", {}), ["store"])
    assert isinstance(caught.value, Taken) is another
