"""What is written down is what is read back, in every format."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from checkers.history import History, malformed
from checkers.tests import files
from checkers.tests.files import Event, column, event, loaded, values
from checkers.tests.fuzz_formats import WRITERS
from checkers.wire import F, Outcome

_LEAVES = (
    st.none()
    | st.integers(-5, 5)
    | st.integers()
    | st.text(max_size=3).filter(lambda text: text[:1] not in set(":'\"\\#"))
)
_VALUES = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=4)


@st.composite
def operations(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """(process, f, value, base, inv, ret, outcome), each process one after the other; no two events at one time."""
    result = []
    times = iter(draw(st.permutations(range(1, 41))))
    for process in range(draw(st.integers(1, 4))):
        moments = sorted(next(times) for _ in range(2 * draw(st.integers(0, 4))))
        for inv, ret in zip(moments[::2], moments[1::2], strict=True):
            outcome = draw(st.sampled_from((Outcome.OK, Outcome.FAIL, Outcome.INFO)))
            f = draw(st.sampled_from((F.READ, F.WRITE, F.CAS, F.ACQUIRE)))
            value = None if f == F.ACQUIRE else draw(_VALUES)
            base = draw(_VALUES) if f == F.CAS else None
            result.append((process, f, value, base, inv, ret, outcome))
    return sorted(result, key=lambda op: op[4])


def _events_of(ops: Iterable[tuple[Any, ...]]) -> list[Event]:
    told = []
    for process, f, value, base, inv, ret, outcome in ops:
        name = f.name.lower()
        given_value = [base, value] if f == F.CAS else value
        told.append(event(process, "invoke", name, None if f == F.READ else given_value, time=inv))
        said = None if f == F.READ and outcome != Outcome.OK else given_value
        told.append(event(process, outcome.name.lower(), name, said, time=ret))
    return sorted(told, key=lambda one: one["time"])


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _same(told: History, ops: list[tuple[Any, ...]], *, places: bool) -> None:
    moments = sorted(moment for op in ops for moment in op[4:6])
    at = {moment: place + 1 if places else moment for place, moment in enumerate(moments)}
    assert column(told, "process") == [op[0] for op in ops]
    assert column(told, "f") == [op[1] for op in ops]
    assert column(told, "inv") == [at[op[4]] for op in ops]
    assert column(told, "ret") == [at[op[5]] for op in ops]
    assert column(told, "outcome") == [op[6] for op in ops]
    expected = [
        "-" if op[1] == F.ACQUIRE or (op[1] == F.READ and op[6] != Outcome.OK) else _hashable(op[2]) for op in ops
    ]
    assert values(told) == expected
    assert values(told, "base") == [_hashable(op[3]) if op[1] == F.CAS else "-" for op in ops]
    assert malformed(told) is None or "two grants" in str(malformed(told))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ops=operations().filter(bool), name=st.sampled_from(["ours", *WRITERS]), few=st.sampled_from((0, 64)))
def test_round_trips(
    tmp_path: Path, ops: list[tuple[Any, ...]], name: str, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assume(not all(op[1] == F.CAS and isinstance(op[2], list) and len(op[2]) == 2 for op in ops))  # as independent keys
    monkeypatch.setattr("checkers.formats.lines.FEW", few)
    events = _events_of(ops)
    if name == "ours":
        _same(loaded(tmp_path, files.jsonl(events)), ops, places=False)
    else:
        bare = [{key: value for key, value in one.items() if key != "time"} for one in events]
        _same(loaded(tmp_path, WRITERS[name](bare)), ops, places=True)
