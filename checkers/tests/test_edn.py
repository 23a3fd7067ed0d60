"""EDN: every form, every layout of a history, and text that is neither."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.formats.edn import Malformed, Reader, value_of
from checkers.history.foreign_values import FrozenMap
from checkers.history.history import BadHistory
from checkers.tests.build import cases, message_of
from checkers.tests.files import column, loaded, values


@cases(
    "text, value",
    ("nil", None), ("true", True), ("-12", -12), ("+3", 3), ("12N", 12),
    ("1.5", 1.5), ("-1e3", -1000.0), ("1.50M", Decimal("1.50")), ("2/4", Fraction(1, 2)),
    (":a", ":a"), (":a.b/c", ":a.b/c"), ("sym", "'sym"),
    ('"a"', "a"), ('":a"', '":a"'), ('"a\\n\\"\\u00e9\\\\"', 'a\n"é\\'),
    ("\\a", "\\a"), ("\\newline", "\\newline"), ("\\[", "\\["),
    ("[1 [2] ()]", (1, (2,), ())), ("(1, 2,)", (1, 2)), ("#{1 2}", frozenset((1, 2))),
    ("{:a 1 :b [2]}", FrozenMap(((":a", 1), (":b", (2,))))), ("{:b 2, :a 1}", FrozenMap(((":a", 1), (":b", 2)))),
    ("#:x{:a 1}", FrozenMap(((":x/a", 1),))), ("#jepsen.history.Op{:a 1}", FrozenMap(((":a", 1),))),
    ('#inst "2020"', ("#inst", "2020")), ("#object[a.B 0]", ("#object", ("'a.B", 0))),
    ("[1 #_ 2 #_ #_ 3 4 5]", (1, 5)), ("; first\n 1 ; then\n", 1),
)  # fmt: skip
def test_forms(text: str, value: Any) -> None:
    told = value_of(text)
    assert told == value
    assert type(told) is type(value)
    hash(told)


@pytest.mark.parametrize(
    "text",
    [
        "", "[", "{", "#{1", '"a', '"a\\', "#_", "#_ 1", "#", "#x", "[1 2", "; only this", "]", "[)", "{1 2]", "{:a}",
        "{:a 1 :a 2}", "#{1 1}", "##NaN", "##Inf", "1e999", "1e999M1", "01", "1.2.3", "1/0", "1a", ":", "\\", "^a 1",
        "@a", "`a", "~a", '"\\q"', '"\\ud800"', "1 2", "#:x 1", "9" * 2000, "[" * 101 + "]" * 101, "[" * 100_000,
        "#a " * 100_000, "#_" * 100_000, "{" * 100_000, '"' + "\\" * 99_999, ";" * 100_000,
        "(" * 99 + "#<Object>" + ")" * 99,
    ],
)  # fmt: skip
def test_text_that_is_no_form_is_refused_with_a_short_message(text: str) -> None:
    assert len(message_of(Malformed, value_of, text)) < 200


def test_sets_and_maps_in_any_order_are_one() -> None:
    assert value_of("#{#{1 2} {:a #{3 4}}}") == value_of("#{{:a #{4 3}} #{2 1}}")
    assert value_of("{}") != value_of("[]")
    assert value_of("{:a 1}") != value_of("[[:a 1]]")
    assert hash(value_of("{:a 1, :b 2}")) == hash(value_of("{:b 2 :a 1}"))


def _event(process: int, type_: str, value: str, more: str = "") -> str:
    return f"{{:process {process}, :type :{type_}, :f :read, :value {value}{more}}}"


BEGUN, ENDED = _event(0, "invoke", "nil"), _event(0, "ok", "3")
LAYOUTS = [
    f"{BEGUN}\n{ENDED}\n",
    f"{BEGUN} {ENDED}",
    f"[{BEGUN}\n {ENDED}]",
    f"({BEGUN}\n ; between {{\n {ENDED}\n) ; after\n",
    f"; before\n[\n{BEGUN}\n{ENDED}\n]\n",
    f"{BEGUN},\n#_ {BEGUN}\n,{ENDED}",
    f"#_\n{BEGUN}\n{BEGUN}\n{ENDED}\n",
    f"#jepsen.history.Op{BEGUN}\n#jepsen.history.Op\n{ENDED}",
    "[{:process 0\n  :type :invoke\n  :f :read\n :value nil}\n{:process 0\n  :type :ok\n  :f :read\n :value\n3}\n]",
    BEGUN + "\n" + _event(0, "ok", "3", f', :error "\n{_event(0, "ok", "4")}\n"'),
    BEGUN + "\n" + _event(0, "ok", "3", f", :others [\n{_event(0, 'ok', '4')}\n]"),
    BEGUN + "\n" + _event(0, "ok", "3", ', :error "}", :x {:value 4}'),
]


@pytest.mark.parametrize("text", LAYOUTS)
@pytest.mark.parametrize("few", [0, 64])
def test_layouts(tmp_path: Path, text: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.formats.lines.FEW", few)
    told = loaded(tmp_path, text)
    assert (column(told, "inv"), column(told, "ret"), values(told)) == ([1], [2], [3])


@cases(
    "text, message",
    (f"[{BEGUN}\n{ENDED}", "history:2: the file ends before the ] of its history"),
    (f"[{BEGUN}\n{ENDED})", "history:2: ) closes nothing that was opened"),
    (f"{BEGUN}\n{ENDED}]", "history:2: ] closes nothing"),
    (f"[{BEGUN}]\n{ENDED}", "history:2: something stands after the end"),
    (f"[{BEGUN}]\n[{ENDED}]", "history:2: something stands after the end"),
    (f"{BEGUN}\n[{ENDED}]", "history:2: not a map"),
    (f"{BEGUN}\n7\n{ENDED}", "history:2: not a map: 7"),
    (f"{BEGUN}\n{{:process 0, :type\n{ENDED}\n", "history:4: the file ends in the middle of a form"),
    (f'{BEGUN}\n{{:process 0, :type "\n{ENDED}\n', "history:2: a string without an end"),
    (f"{BEGUN}\n{{:process 0 :process 0}}", "history:2: :process stands twice"),
    (f"{BEGUN}\n{{:process 0 :type}}\n{ENDED}", "history:2: a map with a key and no value"),
    (f"{BEGUN}\n{{:type :ok}}\n{ENDED}", "history:2: an event without process"),
    (f"#_\n{BEGUN}\n{ENDED}\n", "history:3: process 0 ends read"),
)
@pytest.mark.parametrize("few", [0, 64])
def test_damaged_layouts(tmp_path: Path, text: str, message: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.formats.lines.FEW", few)
    assert message in message_of(BadHistory, loaded, tmp_path, text)


_PIECES = st.sampled_from(
    [*'[](){}"\\;,1- \n', "#{", "#_", "#x", "#:n", ":a", '"s"', "\\c", "2.5", "nil", "##Inf", "#a.B"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_PIECES, max_size=12).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    reader = Reader(text)
    line = 0
    try:
        while reader.peek():
            before = reader.at
            hash(reader.form())
            assert reader.at > before
    except Malformed as error:
        line = error.line
    assert 0 <= line <= text.count("\n")
