"""What reached the protected resource too late, was turned away for nothing, or was read though it never was there."""

from typing import Final

import numpy as np

from checkers.claims import matches
from checkers.history.counting import Flags, apart
from checkers.measures.accesses import (
    Accesses,
    accesses,
    after_an_older_value,
    given_later,
    largest_until,
    read_by_somebody,
    smallest_from,
)
from checkers.measures.measured_history import MeasuredHistory, of_kind
from checkers.measures.record import WITNESSES, Reading, count, measure, silent, witnesses
from checkers.models.model import UNSET
from checkers.properties.fenced_store import BY_THE_CLOCK, FENCED_STORE
from checkers.properties.no_lost_update import LISTS, NO_LOST_UPDATE, lost_updates
from checkers.wire import INFINITY, NONE, F, Outcome

FENCED: Final = "fence-*"
"""Pattern of the store modes that look at tokens."""


@measure("stale-write", judged_by=FENCED_STORE.id)
def stale_write(measured: MeasuredHistory) -> Reading:
    """Writes that a fenced store accepted although they were sent after it had accepted a larger token.

    Definite: the access with the larger token was acknowledged before the write was sent. Where reads carry tokens too
    they raise the bar, and stale reads count as well. `refused` counts those that came as late and were turned away:
    what the fence is for. `fenced-store` judges the exact condition (checkers/CONDITIONS.md, sections 17 and 18).
    """
    if not matches(measured.facts.store, (FENCED,)):
        return silent("the store looks at no tokens")
    made = _with_token(measured)
    made = made.only(_raises(measured, made))
    raising = made.only(made.ok)
    by_time = apart((raising.key, raising.ret), (made.key, made.inv))
    by_token = apart((raising.key, raising.token), (made.key, made.token))
    order = np.argsort(by_time.places[0], kind="stable")
    before = np.searchsorted(by_time.places[0][order], by_time.places[1], "left")
    highest, which = (column[before] for column in largest_until(by_token.places[0][order]))
    late = (highest > by_token.places[1]) & (by_token.key(highest) == made.key)
    accepted = late & made.ok
    refused = late & made.refused
    stale = int(accepted.sum())
    return Reading(
        (count("accepted", stale), count("refused", int(refused.sum()))),
        None if late.any() else "nobody sent anything under a token that a larger one had overtaken",
        witnesses(raising.row[order[which[accepted]]], made.row[accepted]),
        "a stale access was accepted" if stale else None,
    )


@measure("unfenced-stale-write", judged_by=FENCED_STORE.id)
def unfenced_stale_write(measured: MeasuredHistory) -> Reading:
    """Writes of a holder that a store without a fence accepted after a later holder had been given the lock.

    `sent_late`: sent after the acquire of a grant that certainly came later had returned, and accepted: acknowledged,
    or read by somebody. `landed_late`: sent before that moment, and accepted after it: a read that was sent after it
    was answered with a value that was written, for the last time, before this write was sent. `in_flight`: under way
    at that moment, so that it may have come late; never certain.
    See checkers/CONDITIONS.md, sections 6 and 22.
    """
    if measured.facts.store not in BY_THE_CLOCK:
        return silent("the store is no store without a fence")
    if measured.no_lock:
        return silent(measured.no_lock)
    made = accesses(measured)
    granted, later = given_later(measured, made)
    accepted = made.write & (made.ok | (made.unknown & read_by_somebody(made)))
    sent = accepted & (made.inv > granted)
    flying = accepted & (made.inv <= granted) & (made.ret >= granted) & (granted < INFINITY)
    older, proof = after_an_older_value(made, granted, initial=not measured.foreign)
    landed = flying & older
    certain = np.flatnonzero(sent | landed)
    rows = [
        (int(later[n]), *((int(made.row[proof[n]]),) if landed[n] else ()), int(made.row[n]))
        for n in certain[:WITNESSES].tolist()
    ]
    return Reading(
        (
            count("sent_late", int(sent.sum())),
            count("landed_late", int(landed.sum())),
            count("in_flight", int((flying & ~landed).sum())),
        ),
        None if len(certain) or flying.any() else "no write came near the moment at which another was given the lock",
        tuple(rows),
        "a stale write was accepted" if len(certain) else None,
    )


@measure("needless-rejection", judged_by=FENCED_STORE.id)
def needless_rejection(measured: MeasuredHistory) -> Reading:
    """Accesses that a fenced store refused although nothing can have raised its bar above their token by then.

    Definite: no access with a larger token (for a write to a strict store: no other with as large a one) that was
    accepted, or may have been, was sent before the refusal came. `fenced-store` judges the exact condition, which
    looks at the order of all accesses (checkers/CONDITIONS.md, section 17, rule 4).
    """
    mode = measured.facts.store
    if not matches(mode, (FENCED,)):
        return silent("the store looks at no tokens")
    made = _with_token(measured)
    refused = np.flatnonzero(made.refused)
    raising = made.only(~made.refused & _raises(measured, made))
    by_token = apart((raising.key, raising.token), (made.key[refused], made.token[refused]))
    by_time = apart((raising.key, raising.inv), (made.key[refused], made.ret[refused]))
    order = np.argsort(by_token.places[0], kind="stable")
    strict = mode.endswith("strict") & made.write[refused]
    least = by_token.places[1] - strict
    first = np.searchsorted(by_token.places[0][order], least, "right")
    soonest = smallest_from(by_time.places[0][order])[0][first]
    needless = refused[soonest > by_time.places[1]]
    return Reading(
        (count("needless", len(needless)), count("refused", len(refused))),
        None if len(refused) else "nothing was refused",
        witnesses(made.row[needless]),
        "an access was refused for nothing" if len(needless) else None,
    )


@measure("lost-update", judged_by=NO_LOST_UPDATE.id)
def lost_update(measured: MeasuredHistory) -> Reading:
    """Acknowledged updates of a list that its final state does not hold.

    A list is written back as a whole, so that what two holders made from one state loses the update of one of them
    (`checkers.properties.no_lost_update`). Sets and counters of histories from elsewhere are judged by the models
    set-full and counter.
    """
    if not matches(measured.facts.workload, LISTS):
        kept = of_kind(measured.history.columns, F.ADD, F.APPEND).any()
        return silent("judged by the models set-full, counter and kv" if kept else "nobody keeps a list of updates")
    lost = lost_updates(measured)
    return Reading(
        (
            count("lost", len(lost)),
            count("acknowledged", len(measured.rows(F.WRITE, outcomes=(Outcome.OK,)))),
        ),
        NO_LOST_UPDATE.missing(measured),
        witnesses(lost),
        "an acknowledged update is lost" if lost else None,
    )


@measure("dirty-value")
def dirty_value(measured: MeasuredHistory) -> Reading:
    """Reads that returned a value of which every write was refused or failed.

    A failed operation certainly did not happen, so nobody may see its value. The initial value is never dirty, nor is
    one that nobody wrote. Lists and sets, which are read as a whole, are not looked at. Elle calls it G1a.
    """
    c = measured.history.columns
    writes = of_kind(c, F.WRITE, F.CAS)
    failed = writes & (c["outcome"] == Outcome.FAIL)
    reads = of_kind(c, F.READ) & (c["outcome"] == Outcome.OK) & (c["value"] != NONE)
    if measured.settings.initial is not UNSET and measured.history.values:
        initial = [n for n, value in enumerate(measured.history.values) if value == measured.settings.initial]
        reads &= ~np.isin(c["value"], initial)
    named = apart((c["key"], c["value"])).places[0]
    dirty = reads & np.isin(named, named[failed]) & ~np.isin(named, named[writes & ~failed])
    rows = np.flatnonzero(dirty)
    unexercised = None if failed.any() else "no write was refused or failed"
    return Reading(
        (count("reads", len(rows)), count("failed_writes", int(failed.sum()))),
        unexercised if reads.any() else "nothing was read",
        tuple((int(np.argmax(failed & (named == named[row]))), int(row)) for row in rows[:WITNESSES]),
        "a value was read that nobody may have written" if len(rows) else None,
    )


def _with_token(measured: MeasuredHistory) -> Accesses:
    made = accesses(measured)
    return made.only(made.token != NONE)


def _raises(measured: MeasuredHistory, made: Accesses) -> Flags:
    """Which kinds of accesses the fence looks at, and raise its bar."""
    raises: Flags = made.write | matches(measured.facts.store, ("fence-reads-and-writes*",))
    return raises
