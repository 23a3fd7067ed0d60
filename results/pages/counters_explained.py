"""The counters of the checkers, explained in plain words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.judging.judgement import Judgement

MEANINGS: Final[Mapping[str, str]] = {
    "accepted writes": "writes that the store accepted",
    "acknowledged updates": "updates of a list that the store said it had made",
    "acquires queued behind another": "acquires that were in the queue while an earlier one was there as well",
    "bypasses": "grants to one who came later while an earlier one still waited",
    "calls that ended": "calls of the client that returned, so that their length can be held against their timeout",
    "contended acquires": "acquires that had to wait because another held the lock",
    "duplicates": "jobs that were done more than once",
    "duplicates per 1000 jobs": "how many of a thousand jobs were done more than once",
    "gap at hand-over (ms, median)": "from one holder's release to the next one's grant: half of all took longer",
    "grants": "acquires that were answered with the lock",
    "hand-overs": "grants that followed on another client's",
    "holders that died or hung": "clients that a fault killed or stalled while they held the lock",
    "inner releases that somebody waited for": "releases of a nested acquire while another client wanted the lock",
    "jobs": "jobs that were done under the lock",
    "keys asked for after the heal": "locks that somebody asked for after the fault was undone",
    "leases that expired while held": "leases that ran out before their holder had released",
    "lists that were written back twice": "states of a list from which two writes were made: one of them is lost",
    "longest call beyond its timeout (ms)": "by how much the slowest call overran the timeout that it was given",
    "longest false belief (ms)": "how long a client at most believed that it held what another had been granted",
    "longest overlap (ms)": "how long at most two clients were inside at the same time",
    "losses noticed": "times that a client noticed that it no longer held the lock",
    "lost updates": "acknowledged updates that are missing in the end",
    "most inside at once": "clients that held the lock at the same moment, at most",
    "most readers inside at once": "readers that shared the lock at the same moment, at most",
    "nested acquires": "acquires of a lock by the one that held it already",
    "of these waited for": "of the holders that died or hung: those whose lock somebody else wanted",
    "operations in the mixed state": "operations while servers of two versions served together",
    "operations under a fault": "operations that were under way while a fault was at work",
    "readers that were refused": "readers that did not get in although no writer was there",
    "refused": "writes that the store refused",
    "releases of what another held": "releases that were sent when the lock was another's already",
    "releases with several waiting": "releases at which more than one client was waiting: a herd needs that",
    "renewals acknowledged": "renewals that the service said it had made",
    "renewals refused": "renewals that the service refused",
    "slowest recovery (ms)": "from the end of a fault to the first grant after it, at most",
    "slowest release of a dead holder's lock (ms)": "from the death of a holder to the next grant of its lock, at most",
    "stale attempts": "writes under a token when a larger one had been granted already: what a fence is for",
    "tokens": "grants that carried a fencing token",
    "unknown outcomes": "operations without a definite answer: they may have happened or not",
    "wakes": "times that waiting clients were woken",
    "wakes per 100 releases": "how many waiting clients a hundred releases woke",
}


@dataclass(frozen=True, slots=True)
class Counted:
    """A lane's counters. common: those that are equal in all judged properties, and so describe the lane."""

    common: tuple[tuple[str, int], ...]
    by_property: Mapping[str, tuple[tuple[str, int], ...]]


def counted(judgements: Sequence[Judgement]) -> Counted:
    """A lane's counters, each once."""
    rows = {j.property: j.result.counters.items() for j in judgements if j.result is not None and j.result.counters}
    common: set[tuple[str, int]] = set.intersection(*map(set, rows.values())) if len(rows) > 1 else set()
    return Counted(tuple(sorted(common)), {name: tuple(sorted({*mine} - common)) for name, mine in rows.items()})
