"""What compose said, as an error of ours: what another subnet may cure is told apart from what it cannot."""

from subprocess import CalledProcessError
from typing import NoReturn

import pytest

from infra.docker import compose
from infra.docker.compose import ComposeSettings, Taken
from infra.errors import Failed


@pytest.mark.parametrize(
    ("said", "another_may_do"),
    [
        ("failed to create network: Pool overlaps with other one on this address space", True),
        ("Error response from daemon: network fp-1-abcd_n-zk2 not found", True),
        ("Error response from daemon: No such image: fencepost/redis:nowhere", False),
        ("write /var/lib/docker: no space left on device", False),
    ],
)
def test_another_subnet_is_tried_where_it_may_help(
    said: str, another_may_do: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> NoReturn:
        raise CalledProcessError(1, "docker compose", stderr=said.encode())

    monkeypatch.setattr("infra.docker.compose.DockerCompose.start", fails)
    with pytest.raises(Failed) as caught:
        compose.up(ComposeSettings("fp-1-abcd", 3, "kept", "", {}), ["store"])
    assert isinstance(caught.value, Taken) is another_may_do
