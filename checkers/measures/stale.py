"""What reached the protected resource too late, was turned away for nothing, or was read though it never was there."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from operator import attrgetter

import numpy as np

from checkers.claims import matches
from checkers.history.counting import any_of, apart
from checkers.history.order_of_grants import NOBODY, next_granted
from checkers.measures.measure_result import WITNESSES, Reading, counts, measure, witnesses
from checkers.measures.measured_history import MeasuredHistory
from checkers.models.model import UNSET, Operation
from checkers.models.operations import Operations
from checkers.properties.fenced_store import FENCED_STORE, accesses
from checkers.properties.updates import NO_LOST_UPDATE, lost_updates
from checkers.row_format import INFINITY, NONE, F, Outcome


@measure("stale-write", "no_fence", judged_by=FENCED_STORE.id)
def stale_write(measured: MeasuredHistory) -> Reading:
    """Writes that a fenced store accepted although they were sent after it had accepted a larger token.

    Definite: the access with the larger token was acknowledged before the write was sent. If reads carry tokens, they
    raise the bar too, and stale reads count. `refused` counts those that came as late and were refused: what the fence
    is for. `fenced-store` judges the exact condition (checkers/CONDITIONS.md, sections 17 and 18).
    """
    late: list[tuple[Operation, Operation]] = []
    for made in _with_token(measured):
        fenced = [access for access in made if _raises(measured, access)]
        raising = sorted((access for access in fenced if access.ok), key=attrgetter("ret"))
        returns = [access.ret for access in raising]
        highest = list(accumulate(raising, partial(max, key=attrgetter("token"))))
        for access in fenced:
            place = bisect_left(returns, access.inv)
            if place and highest[place - 1].token > access.token:
                late.append((highest[place - 1], access))
    late.sort(key=lambda pair: pair[1].row)
    accepted = [(newer.row, access.row) for newer, access in late if access.ok]
    return Reading(
        counts(accepted=len(accepted), refused=sum(access.failed for _, access in late)),
        None if late else "nobody sent anything under a token that a larger one had overtaken",
        tuple(accepted[:WITNESSES]),
        "a stale access was accepted" if accepted else None,
    )


@measure("unfenced-stale-write", "fenced", "no_lock", judged_by=FENCED_STORE.id)
def unfenced_stale_write(measured: MeasuredHistory) -> Reading:
    """Writes of a holder that a store without a fence accepted after a later holder had been given the lock.

    `sent_late`: sent after the acquire of a certainly later grant had returned, and accepted: acknowledged, or read by
    somebody. `landed_late`: sent before that moment and accepted after it. The proof is a read sent after that moment
    that returned an older value, whose write had returned before this write was sent. `in_flight`: under way at that
    moment, so that it may have come late, which is never certain. See checkers/CONDITIONS.md, sections 6 and 22.
    """
    following = next_granted(measured, by_time=True)
    given = {hold.owner: following[hold.row] for hold in measured.holds}
    sent, landed, flying = list[tuple[int, ...]](), list[tuple[int, ...]](), 0
    for made in measured.once(accesses).values():
        writes = Counter(access.value for access in made if access.f == F.WRITE)
        reads = [access for access in made if access.f == F.READ and access.ok]
        seen = {read.value for read in reads if writes[read.value] == 1}
        moments, oldest = _older_values(made, reads, writes, initial=not measured.foreign)
        for access in made:
            if access.f != F.WRITE or not (access.ok or (access.unknown and access.value in seen)):
                continue
            granted, later = given.get(access.owner, NOBODY)
            written, proof = oldest[bisect_right(moments, granted)]
            if access.inv > granted:
                sent.append((later, access.row))
            elif granted <= access.ret and granted < INFINITY:
                if written < access.inv:
                    landed.append((later, proof, access.row))
                else:
                    flying += 1
    certain = sorted((*sent, *landed), key=lambda rows: rows[-1])
    return Reading(
        counts(sent_late=len(sent), landed_late=len(landed), in_flight=flying),
        None if certain or flying else "no write came near the moment at which another was given the lock",
        tuple(certain[:WITNESSES]),
        "a stale write was accepted" if certain else None,
    )


def _older_values(
    made: Operations, reads: list[Operation], writes: Counter[object], *, initial: bool
) -> tuple[list[int], list[tuple[int, int]]]:
    """When reads were sent that returned a dated value, in order (ns), and for each of them the oldest value of the
    reads sent then or later: (ns at which its write had returned, row of the read); (`INFINITY`, -1) behind the last.

    If a read was sent after a moment and returned an older value than a write (the value's only write had returned
    before this write was sent), then this write took effect after that moment, given that the store is a register.
    initial: whether `NONE` is the value before everything.
    """
    written = {access.value: access.ret for access in made if access.f == F.WRITE and access.ok}
    dated = [
        (read.inv, written.get(read.value, 0), read.row)
        for read in reads
        if (read.value in written and writes[read.value] == 1) or (initial and read.value == NONE)
    ]
    backwards = ((returned, row) for _, returned, row in reversed(dated))
    oldest = accumulate(backwards, lambda a, b: b if b[0] < a[0] else a, initial=(INFINITY, -1))
    return [sent for sent, _, _ in dated], list(oldest)[::-1]


@measure("needless-rejection", "no_fence", judged_by=FENCED_STORE.id)
def needless_rejection(measured: MeasuredHistory) -> Reading:
    """Accesses that a fenced store refused although nothing can have raised its bar above their token by then.

    This is definite: before the refusal came, nobody had sent an access with a larger token (for a write to a strict
    store: another one with at least its token) that was accepted, or may have been. `fenced-store` judges the exact
    condition, which looks at the order of all accesses (checkers/CONDITIONS.md, section 17, rule 4).
    """
    needless, refused = list[int](), 0
    for made in _with_token(measured):
        raising = [access for access in made if not access.failed and _raises(measured, access)]
        raising.sort(key=attrgetter("token"))
        tokens = [access.token for access in raising]
        soonest = list(accumulate((access.inv for access in reversed(raising)), min, initial=INFINITY))[::-1]
        for access in made:
            if access.failed:
                refused += 1
                least = access.token - (measured.facts.store.endswith("strict") and access.f == F.WRITE)
                if soonest[bisect_right(tokens, least)] > access.ret:
                    needless.append(access.row)
    return Reading(
        counts(needless=len(needless), refused=refused),
        None if refused else "nothing was refused",
        witnesses(sorted(needless)),
        "an access was refused for nothing" if needless else None,
    )


@measure("lost-update", judged_by=NO_LOST_UPDATE.id)
def lost_update(measured: MeasuredHistory) -> Reading:
    """Acknowledged updates of a list that its final state does not hold.

    A list is written back as a whole: if two holders start from one state, one of their updates is lost
    (`checkers.properties.updates`). The models set-full, counter and kv judge histories from elsewhere.
    """
    if not measured.facts.keeps_lists:
        kept = any_of(measured.history.columns["f"], (F.ADD, F.APPEND)).any()
        elsewhere = "judged by the models set-full, counter and kv"
        return Reading(unexercised=elsewhere if kept else "nobody keeps a list of updates")
    lost = lost_updates(measured)
    return Reading(
        counts(lost=len(lost), acknowledged=len(measured.rows(F.WRITE, outcomes=(Outcome.OK,)))),
        NO_LOST_UPDATE.missing(measured),
        witnesses(lost),
        "an acknowledged update is lost" if lost else None,
    )


@measure("dirty-value")
def dirty_value(measured: MeasuredHistory) -> Reading:
    """Reads that returned a value of which every write was refused or failed.

    Elle calls it G1a. The initial value is never dirty, nor is a value that nobody wrote. Lists and sets are left out.
    """
    c = measured.history.columns
    writes = any_of(c["f"], (F.WRITE, F.CAS))
    failed = writes & (c["outcome"] == Outcome.FAIL)
    reads = any_of(c["f"], (F.READ,)) & (c["outcome"] == Outcome.OK) & (c["value"] != NONE)
    if measured.settings.initial is not UNSET:
        initial = [n for n, value in enumerate(measured.history.values) if value == measured.settings.initial]
        reads &= ~np.isin(c["value"], initial)
    named = apart((c["key"], c["value"])).places[0]
    dirty = reads & np.isin(named, named[failed]) & ~np.isin(named, named[writes & ~failed])
    rows = np.flatnonzero(dirty)
    unexercised = None if failed.any() else "no write was refused or failed"
    return Reading(
        counts(reads=len(rows), failed_writes=failed.sum()),
        unexercised if reads.any() else "nothing was read",
        tuple((int(np.argmax(failed & (named == named[row]))), int(row)) for row in rows[:WITNESSES]),
        "a value was read that nobody may have written" if len(rows) else None,
    )


def _with_token(measured: MeasuredHistory) -> Iterator[list[Operation]]:
    """The accesses of each key that carry a token."""
    for made in measured.once(accesses).values():
        yield [access for access in made if access.token != NONE]


def _raises(measured: MeasuredHistory, access: Operation) -> bool:
    """Whether the fence looks at an access, so that the access raises its bar."""
    return access.f == F.WRITE or matches(measured.facts.store, ("fence-reads-and-writes*",))
