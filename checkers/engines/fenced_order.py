"""An order of linearization points for the accesses of a fenced store, once it is known that there is one.

Source: checkers/CONDITIONS.md, sections 17 and 18. Groups stand in the order of their tokens, what they hold as
`fenced_zones` says, or as invoked where the accesses of a token follow one another. An unknown access that explains a
refusal stands before the group of its token. A refusal stands before the first access that was invoked after it had
returned: then real time holds, and whatever can have raised the bar by its return stands before it. O(n log n).
"""

import numpy as np

from checkers.engines.fenced_accesses import FREE, IDLE, READ_OK, READ_REFUSED, REFUSED, sort_rows
from checkers.engines.fenced_refusals import Reasons, StoreColumns, reason_of
from checkers.engines.fenced_survey import home
from checkers.engines.fenced_zones import sorted_clusters
from checkers.engines.kernel import Column, kernel

EXPLANATION = -3
CARRIED = -2
"""Places of accesses within a group, before those of clusters."""


@kernel
def arranged(store: StoreColumns, reasons: Reasons) -> Column:
    """The rows of all keys that are not to be skipped."""
    accesses, reads = store.accesses, store.terms.reads
    kind, key, skip = accesses.kind, accesses.key, store.skip
    count = len(kind)
    within = _within(store, reasons.first)
    rows = np.empty(count, np.int32)
    others = np.empty(count, np.int32)
    place = np.full(count, -1, np.int64)
    certain, idle = 0, 0
    for row in range(count):
        what = kind[row]
        if skip[key[row]]:
            continue
        if READ_REFUSED <= what <= REFUSED or what == IDLE:
            others[idle] = row
            idle += 1
        if READ_REFUSED <= what <= REFUSED:
            reason = reason_of(reasons, accesses, store.terms.strict, row)
            if place[reason] < 0 and home(accesses, reads, reason) < 0:
                within[reason] = EXPLANATION
                place[reason] = accesses.group[reason]
                rows[certain] = reason
                certain += 1
        else:
            here = home(accesses, reads, row)
            if here >= 0:
                place[row] = here
                rows[certain] = row
                certain += 1
    sort_rows(rows, certain, place, within)
    return fitted(rows[:certain], others[:idle], key, accesses.inv, accesses.ret)


@kernel
def fitted(rows: Column, others: Column, key: Column, inv: Column, ret: Column) -> Column:
    """The rows, in order within each key, and the others, each as late as its return allows."""
    idle = len(others)
    sort_rows(others, idle, key, ret)
    result = np.empty(len(rows) + idle, np.int64)
    done, waiting = 0, 0
    for row in rows:
        while waiting < idle and (
            key[others[waiting]] < key[row] or (key[others[waiting]] == key[row] and ret[others[waiting]] < inv[row])
        ):
            result[done] = others[waiting]
            done += 1
            waiting += 1
        result[done] = row
        done += 1
    for n in range(waiting, idle):
        result[done] = others[n]
        done += 1
    return result


@kernel
def _within(store: StoreColumns, first: Column) -> Column:
    """Sorts the accesses of a group; equal ones stand as they were invoked."""
    kind, key, group, origin = store.accesses.kind, store.accesses.key, store.accesses.group, store.accesses.origin
    turn, final_write, skip = store.survey.turn, store.final_write, store.skip
    within = np.zeros(len(kind), np.int64)
    writes = np.empty(len(store.survey.writes), np.int32)
    count = 0
    for row in store.survey.writes:
        if not skip[key[row]]:
            writes[count] = row
            count += 1
    writes = sorted_clusters(writes[:count], store.accesses, store.survey)
    for n in range(count):
        row = writes[n]
        if first[group[row]] == row:
            within[row] = 0
        elif final_write[group[row]] == row:
            within[row] = 2 * count + 2
        else:
            within[row] = 2 * n + 2
    for row in range(len(kind)):
        if READ_OK <= kind[row] <= FREE and not turn[key[row]] and not skip[key[row]]:
            here = home(store.accesses, store.terms.reads, row)
            write = origin[row]
            within[row] = within[write] + 1 if write >= 0 and group[write] == here else CARRIED
    return within
