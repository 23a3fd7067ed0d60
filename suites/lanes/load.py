"""What the user sets of lanes. Otherwise a lock says in which workloads it is tried and with which TTL, and a workload
how many workers and keys it has.
"""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Load:
    """What is set for every lane; None: not set.

    workload  names of those to try, also where a lock does not declare them; none: those that it declares.
    workers   processes that compete for the locks of a lane: at least one more than may hold at once, and as many as
              the workload has parts.
    keys      locks in a lane. Where there are more than workers, every other round asks for the first, so that it is
              contended. A workload that takes its keys in an order of its own keeps its number.
    ttl       seconds. Positive controls keep their own, which belongs to what they show.
    rate      rounds that the workers of a lane together begin per second, whether the rounds before have ended or not
              (an open loop); a worker that is late begins at once. None: a round begins when the last one is over.
    duration  seconds for which a trial runs at least.
    """

    workload: tuple[str, ...] = ()
    workers: int | None = None
    keys: int | None = None
    ttl: float | None = None
    rate: float | None = None
    duration: float | None = None

    def to_json(self) -> dict[str, Any]:
        """What is set: the options of `pytest suites/` that set it, and their values."""
        return {name: value for name, value in asdict(self).items() if value not in (None, ())}
