"""Compares engines, all forms of the search, shrinker and verifier with all orders of the same specification."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

from checkers.engines.kernel import always
from checkers.engines.search import Searched, search
from checkers.engines.search_plan import plan
from checkers.engines.search_states import StateSearch
from checkers.engines.search_table import FOUND, search_table, table
from checkers.history.history import DTYPE, History, from_rows
from checkers.models.all_models import MODELS
from checkers.models.model import Illegal, Model, Operation, Settings, Unusable
from checkers.models.operations import WHOLE, ByKey, Operations
from checkers.proofs.shrink import shrink
from checkers.proofs.verify_proof import verify_invalid, verify_valid
from checkers.row_format import NESTED, NONE, SHARED, F, Outcome, Reason
from checkers.tests.brute import explained
from checkers.tests.build import FACTS, Disagreement, replayed, there

LONG: Final = 1e9  # seconds; tiny histories are never given up


class Domain(NamedTuple):
    """What the operations of a model may hold. values: what is written or read; bases: what is expected before."""

    kinds: tuple[F, ...]
    values: tuple[Any, ...] = (None,)
    bases: tuple[Any, ...] = (None,)
    settings: Settings = Settings()
    flags: tuple[int, ...] = (0,)


_LOCK: Final = (F.ACQUIRE, F.ACQUIRE, F.TRY_ACQUIRE, F.TRY_ACQUIRE, F.RELEASE, F.RELEASE, F.RELEASE)
_STRICT: Final = Settings(strict_try=True)
_NUMBERS: Final = (None, 1, 2)
_TRANSACTIONS: Final = (
    (("w", "x", 1),), (("r", "x", 1),), (("r", "x", None), ("w", "y", 1)),
    (("w", "x", 2), ("w", "y", 2)), (("r", "x", 2), ("r", "y", 2)), (("r", "y", 1), ("w", "x", 1)),
)  # fmt: skip
_SETS: Final = (1, 2, (), (1,), (2,), (1, 2))

DOMAINS: Final[Mapping[str, Domain]] = {
    "mutex": Domain(_LOCK, settings=_STRICT),
    "reentrant-mutex": Domain(_LOCK, settings=_STRICT),
    "rwlock": Domain(_LOCK, settings=_STRICT, flags=(0, SHARED)),
    "semaphore": Domain(_LOCK, settings=replace(_STRICT, permits=2)),
    "fencing-tokens": Domain(_LOCK, flags=(0, 0, 0, SHARED, SHARED, NESTED)),
    "fenced-store": Domain((F.READ, F.WRITE, F.WRITE), _NUMBERS),
    "register": Domain((F.READ, F.WRITE), _NUMBERS),
    "cas-register": Domain((F.READ, F.WRITE, F.CAS, F.CAS), _NUMBERS, _NUMBERS),
    "multi-register": Domain((F.TRANSACT,), _TRANSACTIONS),
    "kv": Domain((F.READ, F.WRITE, F.APPEND, F.APPEND), ("", "a", "b", "ab", "ba", "aa", "aba")),
    "set": Domain((F.READ, F.ADD), _SETS),
    "counter": Domain((F.READ, F.ADD), (0, 1, 2, -1, 3)),
    "unique-ids": Domain((F.GENERATE,), (1, 2, 3, 4)),
}
STORES: Final = ("fence-writes", "fence-writes-strict", "fence-reads-and-writes", "fence-reads-and-writes-strict")


def history(rng: Random, name: str) -> History:
    """A run of the model that is often disturbed: answers made up, lost, or spread over more time."""
    domain = DOMAINS[name]
    store = rng.choice(STORES) if name == "fenced-store" else ""
    model = _model(name, store)
    span, width = rng.choice((4, 8, 14)), rng.choice((1, 3, 6))
    disturbed = rng.choice((0.0, 0.3, 0.8))
    state = model.initial
    operations = []
    for at in sorted(rng.randint(1, span) for _ in range(rng.randint(1, 7))):
        operation = _operation(rng, domain, 1, 1)
        for _ in range(8):
            operation = _operation(rng, domain, max(1, at - rng.randint(0, width)), at + rng.randint(0, width))
            if operation.failed and not model.evidence(operation):
                break
            after = model.step(state, operation)
            if not isinstance(after, Illegal):
                state = after
                break
            if rng.random() < disturbed:
                break
        if rng.random() < 0.2:
            operation = operation._replace(outcome=Outcome.INFO, ret=0, reason=Reason.NONE)
        operations.append(operation)
    return _history(operations, domain, store)


def _operation(rng: Random, domain: Domain, inv: int, ret: int) -> Operation:
    owner = rng.randint(1, 3)
    failed = rng.random() < 0.25
    f = rng.choice(domain.kinds)
    token = rng.randint(1, 3) if rng.random() < 0.9 else NONE
    value, base, flags = (rng.choice(some) for some in (domain.values, domain.bases, domain.flags))
    reason = rng.choice((Reason.HELD, Reason.STALE_TOKEN, Reason.NONE)) if failed else Reason.NONE
    outcome = Outcome.FAIL if failed else Outcome.OK
    return Operation(0, f, outcome, inv, ret, owner - 1, "a", owner, token, value, base, flags, reason)


def _history(operations: Sequence[Operation], domain: Domain, store: str) -> History:
    values = tuple(dict.fromkeys((*domain.values, *domain.bases)))
    rows = np.zeros(len(operations), DTYPE)
    for name in ("inv", "ret", "token", "owner", "process", "f", "outcome", "reason", "flags"):
        rows[name] = [getattr(o, name) for o in operations]
    for name in ("value", "base"):
        rows[name] = [values.index(getattr(o, name)) for o in operations]
    return replace(from_rows(replace(FACTS, keys=("a",), store=store), rows), values=values)


@cache
def _model(name: str, store: str) -> Model:
    return there(MODELS[name].make(_history([], DOMAINS[name], store), DOMAINS[name].settings))


def linearizable(operations: Sequence[Operation], model: Model) -> bool:
    """Whether some order explains all answers. Tries every order, with each unknown operation in it or left out."""

    def step(state: Any, operation: Operation) -> tuple[Any, ...]:
        after = model.step(state, operation)
        return () if isinstance(after, Illegal) else (after,)

    spans = [(o.inv, o.ret) for o in operations]
    return explained(operations, spans, [o.unknown for o in operations], model.initial, step)


def everything(rng: Random, *, name: str) -> str:
    """Judges one history by its engine and by every form of the search; the verifier must accept a proof of it."""
    given = history(rng, name)
    statement, settings = MODELS[name], DOMAINS[name].settings
    model = there(statement.make(given, settings))
    operations = ByKey(given, statement.kinds, keyed=statement.keyed)[0 if statement.keyed else WHOLE]
    counting = [o for o in operations if not o.failed or model.evidence(o)]
    truth = linearizable(counting, model)
    answers = list(_forms(operations, model))
    for form, found in answers:
        if found.valid is not truth:
            raise Disagreement(f"{form} says {found.valid}, exhaustive search {truth}:\n{_shown(counting)}")
    if statement.engine is not None:
        try:
            answer = statement.engine(given, settings)
        except Unusable:
            if any(o.f != F.RELEASE and o.outcome == Outcome.OK and o.token != NONE for o in operations):
                raise Disagreement(f"refused, though a grant has a token:\n{_shown(counting)}") from None
            return "refused"
        if not answer.undecided and bool(answer.conflicts) is truth:
            raise Disagreement(f"the engine says {answer}, exhaustive search {truth}:\n{_shown(counting)}")
        replayed(given, answer, model)
    form, found = rng.choice(answers)
    rows: Sequence[int] | None = found.order
    if truth:
        wrong = verify_valid(given, statement, settings, found.order)
    else:
        rows = shrink(operations, model, (*found.stuck.rows[1:], *found.stuck.rows[:1]), LONG).rows
        wrong = "nothing bad" if rows is None else verify_invalid(given, statement, settings, rows)
    if wrong is not None:
        raise Disagreement(f"{form}: {rows} is no proof: {wrong}\n{_shown(operations)}")
    if truth:
        _closed_parts(rng, operations, counting, model)
    return "valid" if truth else "invalid"


def _forms(operations: Operations, model: Model) -> Iterator[tuple[str, Searched]]:
    yield "the search", search(operations, model, LONG)
    planned = plan(operations, model, LONG)
    states = StateSearch(planned, model, LONG)
    while not states.run(1):
        pass
    order = states.order
    yield "the search of states, a step at a time", Searched(order is not None, order or (), states.stuck)
    made = table(planned, model, 1_000, LONG)
    if made is None:
        return  # a model with endless states: what was added can be added again
    with always(compiled=False):
        answer, numbers, furthest, _ = search_table(made, 1_000_000, 1_000_000)
    if furthest != states.furthest:
        raise Disagreement(f"the table comes to event {furthest}, the states to {states.furthest}")
    yield "the search in a table", Searched(answer == FOUND, tuple(planned.rows[numbers].tolist()), states.stuck)


def _closed_parts(rng: Random, operations: Operations, counting: Sequence[Operation], model: Model) -> None:
    """Checks the promise of `Model.needs`: no closed part of a valid history is invalid."""
    if not counting:
        return
    part = {o.row for o in rng.sample(counting, rng.randint(1, len(counting)))}
    by_row = {o.row: o for o in counting}
    while more := {row for r in part for row in _needed(model, by_row[r], operations)} & by_row.keys() - part:
        part |= more
    if not linearizable([by_row[row] for row in part], model):
        raise Disagreement(f"closed, but invalid: {sorted(part)} of the valid\n{_shown(counting)}")


def _needed(model: Model, operation: Operation, peers: Operations) -> set[int]:
    rows = model.needs(operation, peers)
    if rows is None:
        return {o.row for o in peers if o.inv <= operation.ret and model.changes(o) and not operation.unknown}
    return set(rows)


def _shown(operations: Iterable[Operation]) -> str:
    return "\n".join(
        f"{o.row}: {o.f.name} {o.outcome.name} [{o.inv}, {'' if o.unknown else o.ret}] value {o.value!r} "
        f"base {o.base!r} owner {o.owner} token {o.token} flags {o.flags} {o.reason.name}"
        for o in operations
    )


CHECKS: Final[Mapping[str, Callable[[Random], str]]] = {f"search-{it}": partial(everything, name=it) for it in DOMAINS}
