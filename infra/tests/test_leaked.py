"""Networks that the engine cannot remove before it is started anew: everybody passes over them."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from docker.errors import APIError

from infra.docker import owner, reaper


@pytest.mark.parametrize(
    ("age", "trouble", "tried"),
    [(3600, "network n has active endpoints", False), (1, "network n has active endpoints", True), (3600, "no", True)],
)
def test_the_irremovable_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, age: float, trouble: str, *, tried: bool
) -> None:
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
