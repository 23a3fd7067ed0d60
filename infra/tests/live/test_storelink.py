"""Late and lost writes to the store, by the store client that workers use, through the links of one group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra import store
from infra.store import INITIAL, Mode, Store, Unknown
from infra.tests.environments import on
from infra.tests.live.hurting import await_, done

if TYPE_CHECKING:
    from infra.environment import Environment
    from infra.faults.target import Target

pytestmark = on("redis")


@pytest.fixture(autouse=True)
def schema(environment: Environment) -> None:
    store.prepare(environment.store_dsn(None))


def _open(environment: Environment, group: int) -> Store:
    return Store.open(environment.store_dsn(group), Mode.UNFENCED, timeout=0.5)


def _value(environment: Environment, key: str) -> int:
    return store.final(environment.store_dsn(None), key).value


def test_a_write_is_held_and_lands_though_its_client_has_given_up_and_gone(
    environment: Environment, target: Target
) -> None:
    mine, other = _open(environment, 1), _open(environment, 2)
    with done(target, "delayed-write", group="c1") as hit:
        assert hit.target == "requests of clients c1 to the store"
        with pytest.raises(Unknown):
            mine.write("delayed", 1, None, 1)
        mine.close()
        assert _value(environment, "delayed") == INITIAL
        assert other.write("delayed", 2, None, 2)  # a successor, in time
        assert _value(environment, "delayed") == 2
    await_(lambda: _value(environment, "delayed") == 1)  # it came late, over the successor's
    other.close()


def test_a_write_is_done_and_nobody_is_told(environment: Environment, target: Target) -> None:
    mine, other = _open(environment, 3), _open(environment, 2)
    with done(target, "store-reply-lost", group="c3") as hit:
        assert hit.target == "replies of the store to clients c3"
        with pytest.raises(Unknown):
            mine.write("untold", 1, None, 1)
        assert _value(environment, "untold") == 1
        assert other.write("others", 2, None, 2)
    mine.close()
    again = _open(environment, 3)
    assert again.write("untold", 3, None, 3)
    assert _value(environment, "untold") == 3
    again.close()
    other.close()
