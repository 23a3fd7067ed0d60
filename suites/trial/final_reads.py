"""Final reads: what every key of a lane holds at the end of a trial, read past every fence and link."""

import time
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from checkers import row_format
from checkers.history.history import DTYPE
from checkers.row_format import F, Outcome
from infra.environment import Environment
from infra.store import store
from suites.lanes.lane import Lane
from suites.lock import Guards, LockError
from suites.worker.pool import TrialBroke
from suites.worker.process_spec import GUARDED

ANSWERED_WITHIN: Final = 20.0
"""Seconds for a server that is whole to answer; it measures 10 ms, and seconds where the machine is overloaded."""
_AGAIN: Final = 0.2


def final_reads(lane: Lane, keys: Sequence[str], environment: Environment) -> npt.NDArray[Any]:
    """A row for each key. Raises TrialBroke where a key cannot be read."""
    rows = np.zeros(len(keys), DTYPE)
    for number, key in enumerate(keys):
        rows[number]["inv"] = time.monotonic_ns()
        value, elements = _read(lane, key, environment)
        rows[number]["ret"] = time.monotonic_ns()
        rows[number]["value"], rows[number]["base"] = value, len(elements)
        rows[number]["key"] = number
    rows["f"], rows["outcome"], rows["flags"] = F.READ, Outcome.OK, row_format.FINAL
    rows["token"], rows["process"] = row_format.NONE, -1
    return rows


def _read(lane: Lane, key: str, environment: Environment) -> tuple[int, Sequence[int]]:
    """Read until it succeeds: nobody writes any more."""
    deadline = time.monotonic() + ANSWERED_WITHIN
    while True:
        try:
            if lane.store == GUARDED:
                guards = cast(type[Guards], lane.lock)
                return guards.final(environment.direct(lane.backend), key, environment.access(lane.backend))
            final = store.final(environment.store_dsn(None), key)
        except (LockError, store.StoreError) as error:
            if time.monotonic() > deadline:
                raise TrialBroke(f"after the trial: {key} cannot be read ({error})") from error
            time.sleep(_AGAIN)
        else:
            return final.value, final.elements
