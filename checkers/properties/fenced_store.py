"""`token-order` and `fenced-store`: later holders have larger tokens, and accesses that they overtook are refused.

`token-order`: each grant has a strictly larger fencing token than every grant before it in real time. Readers that hold
together may share a token: only writers must fence them off. Unanswered acquires impose nothing: nobody knows their
tokens. Source: checkers/CONDITIONS.md, section 8.
`fenced-store`: the protected resource accepts no access that a later holder has overtaken, and refuses no other. The
store mode says what that means. A store without a fence is judged by whether it accepted a stale write.
"""

from collections.abc import Iterator
from typing import Final

from checkers.engines.fenced import fenced_findings
from checkers.engines.search import search
from checkers.history.counting import any_of
from checkers.history.finding import Finding, OutOfBudget
from checkers.history.order_of_grants import disordered, next_granted, superseded
from checkers.history.view import View
from checkers.models.model import Model
from checkers.models.operations import ByKey, Operations
from checkers.models.stores import REFUSALS, RULES, CompareOwner, FencedStore
from checkers.properties.check_result import Proof
from checkers.properties.property import EXCLUDES, Examined, Need, Property
from checkers.properties.shared_counters import Exercise, fault_missed, lock_unexercised, short_of, write_missed
from checkers.row_format import NONE, F, Outcome

STALE: Final = "stale attempts"

BY_THE_CLOCK: Final = ("unfenced", "guarded")
"""Store modes that are judged by the time at which another client was granted the lock, whatever tokens say."""
BY_VERSION: Final = ("compare-and-set", "idempotency-key")
"""Store modes that look at the state and never at the lock, so that no access to them is stale."""


def _examine_order(view: View) -> Examined:
    """Exact. A grant comes before another if its acquire returned before the other's request was sent."""
    findings = []
    for holds in view.holds.by_key.values():
        for first, second in disordered([hold for hold in holds if hold.token != NONE]):
            kind = "token-repeated" if first.token == second.token else "token-not-larger"
            rows = first.row, second.row
            findings.append(Finding(kind, second.ret, rows, rows))
    return Examined(findings)


def _exercise_order(view: View) -> Exercise:
    tokens = sum(hold.token != NONE for hold in view.holds)
    missing = "the grants carry no tokens" if view.holds and not tokens else lock_unexercised(view)
    return Exercise(missing, {"tokens": tokens})


def _examine(view: View) -> Examined:
    """Judges the store in its mode: checkers/CONDITIONS.md, section 9. A search finds one violation a key at most."""
    mode = view.facts.store
    by_key = view.once(accesses)
    findings: list[Finding] = []
    undecided: list[str] = []
    proof: list[int] = []
    searched: dict[int, Model] = {}
    if mode in RULES:
        findings, unclear = fenced_findings(view.history, RULES[mode])
        searched = {key: FencedStore(RULES[mode]) for key in unclear}
    elif mode in BY_THE_CLOCK:
        findings = [finding for ops in by_key.values() for finding in _stale_writes(view, ops)]
    elif mode == "compare-owner":
        searched = {key: CompareOwner(list(ops)) for key, ops in by_key.items()}
    elif mode not in BY_VERSION:
        undecided.append(f"store mode {mode!r} is not known here")
    for key, model in searched.items():
        try:
            findings += _searched(view, by_key[key], model, proof)
        except OutOfBudget as spent:
            undecided.append(f"{view.facts.keys[key]}: {spent}")
    order = Proof("order", tuple(proof)) if proof else None
    return Examined(findings, undecided="; ".join(dict.fromkeys(undecided)) or None, proof=order)


def _exercise(view: View) -> Exercise:
    stale = _stale_attempts(view)
    if view.facts.store in BY_VERSION:
        return Exercise(f"the store mode {view.facts.store} knows no holders", {STALE: stale})
    few = short_of({STALE: stale}, {STALE: 1})
    return Exercise(few or fault_missed(view) or write_missed(view), {STALE: stale})


def accesses(view: View) -> dict[int, Operations]:
    """Reads and writes by key, in order of invocation, without those that certainly never reached the store."""
    by_key = ByKey(view.history, (F.READ, F.WRITE))
    reached = (view.array("outcome") != Outcome.FAIL) | any_of(view.array("reason"), REFUSALS)
    rows = {key: by_key[key].rows[reached[by_key[key].rows]] for key in by_key.keys}
    return {key: by_key[key].only(some) for key, some in rows.items() if len(some)}


def _following(view: View) -> dict[int, tuple[int, int]]:
    """Acquire row → (ns, acquire row) of the first later grant; in modes of `BY_THE_CLOCK` one that excludes it."""
    return superseded(view) if view.facts.store in BY_THE_CLOCK else next_granted(view)


def _searched(view: View, ops: Operations, model: Model, proof: list[int]) -> Iterator[Finding]:
    """Raises OutOfBudget."""
    searched = search(ops, model)
    if searched.valid is None:
        raise OutOfBudget(searched.reason)
    if searched.valid:
        proof.extend(searched.order)
        return
    by_row = {access.row: access for access in ops}
    stuck = by_row[searched.stuck.rows[0]]
    before = [access for access in ops if access.ok and access.ret < stuck.inv and access.owner != stuck.owner]
    rows = [max(before, key=lambda access: access.ret).row] if before else []
    why = ""
    if isinstance(model, CompareOwner):
        owners = dict.fromkeys((stuck.owner, *(by_row[row].owner for row in rows)))
        first = (next(access for access in ops if access.owner == owner) for owner in owners)
        sent = "; ".join(f"{view.who(view.process[each.row])}'s: {view.clock(each.inv)}" for each in first)
        why = f"So the store broke its rule that only the grant whose first access came last may write ({sent})."
    yield Finding("no-order", stuck.inv, (*rows, *searched.stuck.rows[1:], stuck.row), conclusion=why)


def _stale_writes(view: View, ops: Operations) -> Iterator[Finding]:
    """Accepted writes that were sent after a later grant had returned. Unanswered writes count if a read proves it."""
    operations, following = list(ops), view.once(_following)
    readers = {access.value: access for access in reversed(operations) if access.f == F.READ and access.ok}
    for access in operations:
        hold = view.hold_of(access.row)
        if hold is None or access.f != F.WRITE or access.failed:
            continue
        granted, later = following[hold.row]
        if access.inv > granted and (access.ok or access.value in readers):
            proof = () if access.ok else (readers[access.value].row,)
            holder = view.who(view.process[later])
            why = f"So the store accepted {view.who(hold.process)}'s write after the lock had been granted to {holder}."
            yield Finding("stale-write-accepted", access.inv, (later, *proof, access.row), (hold.row, later), why)


def _stale_attempts(view: View) -> int:
    """Accesses that were sent, under an older grant, after a later grant had returned."""
    mode, following = view.facts.store, view.once(_following)
    reads = mode in RULES and RULES[mode].reads
    rows = (row for ops in view.once(accesses).values() for row in ops.rows.tolist() if reads or view.f[row] == F.WRITE)
    return sum(view.inv[row] > following[hold.row][0] for row, hold in view.with_holds(rows))


TOKEN_ORDER: Final = Property("token-order", _examine_order, _exercise_order, needs=EXCLUDES | {Need.TOKENS})
FENCED_STORE: Final = Property(
    "fenced-store", _examine, _exercise, by_workload=True, not_expected_in={"unfenced": "the store has no fence"}
)
