"""Whether a result is proven: checks both kinds of proof against the specification.

It shares no code with engines and search, only the history, the model, and what the model says that an operation needs.
Valid: an order of linearization points, replayed. Invalid: a few operations, all of whose orders are tried.
"""

import time
from collections.abc import Iterable, Sequence

from checkers.history.finding import OutOfBudget
from checkers.history.history import History
from checkers.models.all_models import Specification
from checkers.models.model import Illegal, Model, Operation, Settings, State
from checkers.models.operations import WHOLE, ByKey, Operations


def verify_valid(history: History, statement: Specification, settings: Settings, order: Sequence[int]) -> str | None:
    """None if the order explains every answer of the history, else what is wrong with it, in one line.

    The rows of each key must stand in an order that respects real time, contain each answered operation once and each
    unknown one at most once, and each operation must be able to end as it did.
    """
    model = statement.make(history, settings)
    if model is None:
        return statement.certify(history, settings, True, order) if statement.certify else "nothing can verify this"
    by = ByKey(history, statement.kinds, keyed=statement.keyed)
    left = {o.row: (key, o) for key in by.keys for o in by[key] if not o.failed or model.evidence(o)}
    reached: dict[int, tuple[State, Operation]] = {}
    for row in order:
        if row not in left:
            return f"row {row} stands twice in the order, or does not belong there"
        key, operation = left.pop(row)
        state, latest = reached.get(key, (model.initial, operation))
        if operation.ret < latest.inv:
            return f"row {row} stands behind row {latest.row}, but had returned before that was invoked"
        state = model.step(state, operation)
        if isinstance(state, Illegal):
            return f"row {row} cannot have ended as it did at its place in the order"
        reached[key] = state, max(latest, operation, key=lambda o: o.inv)
    missing = next((row for row, (_, operation) in left.items() if not operation.unknown), None)
    return None if missing is None else f"row {missing} is missing"


def verify_invalid(history: History, statement: Specification, settings: Settings, rows: Sequence[int]) -> str | None:
    """None if these operations alone prove the history invalid and none can be spared, else what is wrong.

    They are of one key, closed under `Model.needs`, and have no order, but without any one they do. Raises OutOfBudget.
    """
    deadline = time.monotonic() + settings.budget
    model = statement.make(history, settings)
    if model is None:
        return statement.certify(history, settings, False, rows) if statement.certify else "nothing can verify this"
    keys = {int(history.columns["key"][row]) if statement.keyed else WHOLE for row in rows}
    if len(keys) != 1 or len(set(rows)) != len(rows):
        return "none, or of several keys, or one of them twice"
    peers = ByKey(history, statement.kinds, keyed=statement.keyed)[keys.pop()]
    counting = {o.row: o for o in peers if not o.failed or model.evidence(o)}
    if not counting.keys() >= set(rows):
        return "one of them proves nothing"
    needs = {row: _needs(model, counting[row], peers) & counting.keys() for row in rows}
    for row in rows:
        if not needs[row] <= set(rows):
            return f"row {row} needs row {min(needs[row] - set(rows))}, which is missing"
    if _explained(model, [counting[row] for row in rows], deadline):
        return "some order explains all of them"
    for row in rows:
        rest = set(rows) - {row}
        while unmet := {r for r in rest if not needs[r] - {r} <= rest}:
            rest -= unmet
        if not _explained(model, [counting[r] for r in rest], deadline):
            return f"row {row} can be left out"
    return None


def _needs(model: Model, o: Operation, peers: Operations) -> set[int]:
    rows = model.needs(o, peers)
    earlier = (peer.row for peer in peers if peer.inv <= o.ret and not o.unknown and model.changes(peer))
    return set(earlier if rows is None else rows)


def _explained(model: Model, operations: Iterable[Operation], deadline: float) -> bool:
    """Whether some order explains them: tries all that respect real time, each pair (what is left, state) once."""
    ordered = sorted(operations, key=lambda o: o.ret)
    answered = sum(1 << n for n, o in enumerate(ordered) if not o.unknown)
    todo = [((1 << len(ordered)) - 1, model.initial)]
    seen = set(todo)
    while todo:
        if time.monotonic() > deadline:
            raise OutOfBudget("there are too many orders to try")
        left, state = todo.pop()
        if not left & answered:
            return True
        horizon = ordered[(left & -left).bit_length() - 1].ret  # the first return among what is left
        for n, operation in enumerate(ordered):
            if left >> n & 1 and operation.inv <= horizon:
                following = left ^ 1 << n, model.step(state, operation)
                if not isinstance(following[1], Illegal) and following not in seen:
                    seen.add(following)
                    todo.append(following)
    return False
