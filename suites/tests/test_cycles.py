"""A cycle has victims for faults on workers, whatever the backend."""

import pytest

from infra.backends import BACKENDS
from suites.commands.cycles import DRAWN, STORES, drawn_on, lanes_on
from suites.selection.profiles import PLAINEST


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_has_a_lane_of_its_plainest_locks(backend: str) -> None:
    lanes = lanes_on(backend)
    assert {lane.backend for lane in lanes} == {backend}
    assert all(lane.lock_name in PLAINEST and lane.store in STORES for lane in lanes) or len(lanes) == 1
    assert all(lane.not_applicable is None for lane in lanes)


@pytest.mark.parametrize("backend", BACKENDS)
def test_lanes_are_drawn_from_the_seed_of_one_lock_each(backend: str) -> None:
    drawn = drawn_on(backend, 1)
    assert drawn == drawn_on(backend, 1)
    assert 0 < len({lane.lock_name for lane in drawn}) == len(drawn) <= DRAWN
    assert len({drawn_on(backend, seed) for seed in range(5)}) > 1
