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
    """A row for each key, all as if they had been read at once. Raises TrialBroke where one cannot be read."""
    rows = np.zeros(len(keys), DTYPE)
    rows["inv"] = time.monotonic_ns()
    contents = _read(lane, keys, environment)
    rows["ret"] = time.monotonic_ns()
    rows["value"], rows["base"] = zip(*((value, len(elements)) for value, elements in contents), strict=True)
    rows["key"] = range(len(keys))
    rows["f"], rows["outcome"], rows["flags"] = F.READ, Outcome.OK, row_format.FINAL
    rows["token"], rows["process"] = row_format.NONE, -1
    return rows


def _read(lane: Lane, keys: Sequence[str], environment: Environment) -> list[tuple[int, Sequence[int]]]:
    """(value, elements) of each key. Read until it succeeds: nobody writes any more."""
    deadline = time.monotonic() + ANSWERED_WITHIN
    while True:
        try:
            if lane.store == GUARDED:
                guards, nodes = cast(type[Guards], lane.lock), environment.direct(lane.backend)
                return [guards.final(nodes, key, environment.access(lane.backend)) for key in keys]
            return [(read.value, read.elements) for read in store.final(environment.store_dsn(None), *keys)]
        except (LockError, store.StoreError) as error:
            if time.monotonic() > deadline:
                raise TrialBroke(f"after the trial: {lane.name} cannot be read ({error})") from error
            time.sleep(_AGAIN)
