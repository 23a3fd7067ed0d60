"""Admission: every lock is tried once, what it left is swept, and what goes wrong is a line without secrets."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import ClassVar, Self, cast

import pytest

from checkers.row_format import Reason
from infra.access import Access
from infra.errors import Failed
from infra.own_environment import OwnEnvironment
from suites.lock import Grant, Indeterminate, LockClient, Refused
from suites.tests.bench import raising
from suites.trial import target_cleanup

SECRET = "hush'hush"
ENDPOINTS = ("10.0.0.1:1",)
WORLD = cast(
    OwnEnvironment,
    SimpleNamespace(endpoints=lambda *_: ENDPOINTS, direct=lambda _: ("db:1",), access=lambda _: Access("ann", SECRET)),
)
"""Stands in for an environment beside a cluster of somebody else's."""


class Lock:
    """Says in `done` what was done with it."""

    name: ClassVar[str] = "mine"
    min_ttl: ClassVar[float] = 0.1
    done: ClassVar[list[str]] = []
    raises: ClassVar[list[Exception]] = []

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access) -> Self:
        assert (endpoints, access.password) == (ENDPOINTS, SECRET)
        return cls()

    def acquire(self, name: str, timeout: float) -> Grant | None:
        self.done.append(f"acquire {name}")
        if self.raises:
            raise self.raises.pop(0)
        return Grant(name, 1, None, 0, 0, 0)

    def release(self, grant: Grant) -> None:
        self.done.append(f"release {grant.name}")

    def close(self) -> None:
        self.done.append("close")

    @classmethod
    def sweep(cls, endpoints: Sequence[str], names: Sequence[str], access: Access) -> None:
        assert tuple(endpoints) == ("db:1",), "past the links"
        cls.done.append(f"sweep {', '.join(names)}")


@pytest.fixture(autouse=True)
def _anew() -> None:
    Lock.done.clear()
    Lock.raises.clear()


def ask() -> None:
    target_cleanup.ask_admission(WORLD, "redis", [cast(type[LockClient], Lock)])


def test_a_lock_is_taken_and_released_and_its_traces_are_swept() -> None:
    ask()
    (name,) = {line.split()[1] for line in Lock.done if " " in line}
    assert Lock.done == [f"acquire {name}", f"release {name}", "close", f"sweep {name}"]


def test_a_request_that_fails_now_and_then_is_tried_again() -> None:
    Lock.raises.extend([Refused(Reason.UNAVAILABLE), Indeterminate("no answer")])
    ask()
    assert len([line for line in Lock.done if line.startswith("sweep")]) == 3, "each attempt may leave something"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (Refused(Reason.DENIED, f"{SECRET}?"), r"^the target redis does not let mine in: denied: \*\*\*\?$"),
        (LookupError(f"ann:{SECRET}@db"), r"^mine broke when it asked the target redis .*(?s:.*)ann:\*\*\*@db"),
    ],
)
def test_what_goes_wrong_is_told_without_the_password(error: Exception, says: str) -> None:
    Lock.raises.append(error)
    with pytest.raises(Failed, match=says) as caught:
        ask()
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__, "what is behind it may quote the password"
    assert Lock.done[-2:] == ["close", Lock.done[-1]]
    assert Lock.done[-1].startswith("sweep")


def test_what_cannot_be_swept_is_said_and_nothing_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lock, "sweep", raising(Refused(Reason.UNAVAILABLE, f"AUTH {SECRET}")))
    said: list[str] = []
    target_cleanup.sweep(WORLD, "redis", [(cast(type[LockClient], Lock), ["a", "b"])], said.append)
    assert said == ["  mine: left behind on redis: a, b (unavailable: AUTH ***)"]
