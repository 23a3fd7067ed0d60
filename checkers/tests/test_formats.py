"""Foreign histories of every format: what their events become. Damaged files get one line, which names a line."""

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from checkers.formats.formats import Family, load_with_defaults
from checkers.history.history import BadHistory, History, _digest, malformed, save
from checkers.row_format import NONE, SHARED, F, Outcome, Reason
from checkers.tests import files
from checkers.tests.build import Book, cases, message_of
from checkers.tests.files import Event, column, event, loaded, told, values
from checkers.tests.fuzz_formats import CHECKS, WRITERS

FAMILIES = {"jsonl": Family.FOREIGN_JSONL, "edn": Family.EDN, "text": Family.TEXT, "log": Family.LOG}


def ours(text: str) -> str:
    """JSONL of a text in which every event names its time."""
    return files.jsonl(told(text))


def edn(text: str) -> str:
    return files.edn(told(text))


def log(*lines: str) -> str:
    return "".join(f"INFO  jepsen.util - {line}\n" for line in lines)


def described(history: History, names: Iterable[str]) -> dict[str, Any]:
    """Columns, values and facts by their names."""
    about: dict[str, Any] = {"keys": history.facts.keys, "clock": history.clock, "lines": history.lines}
    about |= {name: values(history, name) for name in ("value", "base")}
    about["errors"] = [history.errors[place] for place in column(history, "error")]
    found = {name: about[name] if name in about else column(history, name) for name in names}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in found.items()}


READ, WRITE, CAS = F.READ, F.WRITE, F.CAS


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_tells_the_same(tmp_path: Path, name: str) -> None:
    begun = "0 invoke write 3; 1 invoke read; 0 ok write 3; 2 invoke cas [3,4]; 1 ok read 3; 2 info cas [3,4]"
    history = loaded(tmp_path, WRITERS[name](told(begun + "; 2 invoke cas [4,5]; 1 invoke read")))
    expected: dict[str, Any] = {"f": [WRITE, READ, CAS, CAS, READ], "outcome": [Outcome.OK] * 2 + [Outcome.INFO] * 3}
    expected |= {"inv": [1, 2, 4, 7, 8], "ret": [3, 5, 6, 0, 0], "process": [0, 1, 2, 2, 1], "owner": [1, 2, 3, 3, 2]}
    expected |= {"value": [3, 3, 4, 5, "-"], "base": ["-", "-", 3, 4, "-"], "keys": ("",)}
    expected |= {"lines": [[1, 3], [2, 5], [4, 6], [7, 0], [8, 0]]}
    assert described(history, expected) == expected
    assert history.facts.lane == "history"
    assert history.clock is not None
    assert malformed(history) is None
    assert load_with_defaults(tmp_path / "history").family == FAMILIES[name]


TIMED = ours("1 invoke read time=7; 0 ok write 1 time=9; 1 ok read 1 time=9; 0 invoke write 1 time=5")
UNTIMED = ours("0 invoke read time=9; 0 ok read 1; 1 invoke read time=3")
BACKWARDS = edn("0 ok read 1 index=1 time=5; 0 invoke read index=0 time=9; 1 invoke read index=7 time=1")
HELD = "5 invoke acquire time=1 key=a; 5 ok acquire time=2 owner=x token=7 ttl=100 session=s; "
WROTE = "5 invoke write 1 time=3 key=b token=7; 5 ok write time=4; "
OWNED = ours(HELD + WROTE + "5 invoke release time=5 key=a owner=x; 5 ok release time=6")
WORKERS = ours("; ".join(f"{who} invoke read time=1" for who in ("a", 7, "b", -1, 10**12)))
TUPLE = "{:process 0, :type :%s, :f :read, :value #jepsen.independent/tuple [:k %s]}\n"
TAGGED = TUPLE % ("invoke", "nil") + TUPLE % ("ok", "[1 2]")
BY_ONE = "1 invoke increment time=2; 2 invoke decrement time=3; "
COUNTED = ours("0 invoke add -2 time=1; " + BY_ONE + "3 invoke dec 5 time=4; 4 invoke inc 5 time=5")
TXN = "{:process 0, :type :%s, :f :txn, :value [%s]}\n"
STEPS = "[:read :x %s] [:w :y 2] [:append 9 1]"
TRANSACTIONS = TXN % ("invoke", STEPS % "nil") + TXN % ("ok", STEPS % 1) + TXN % ("invoke", "[:r :x nil]")
KEYS = ours('0 invoke read time=1 key=1; 1 invoke read time=1 key="1"; 2 invoke read time=1 key=b')
LATE = log("0\t:invoke\t:write\t4", "0\t:fail\t:write\t:timed-out", "1\t:invoke\t:cas\t[1 2]", "1\t:fail\t:cas\t[1 2]")
BEGUN, BLANKS = log("0\t:invoke\t:read\tnil"), log("1   :invoke :cas    [1 2]", "1   :fail   :cas    [1 2]  timed out")
OTHERS = (
    "2020-01-02 03:04:05,678{GMT}\tINFO\t[main] jepsen.core: Hello\n{:not an}\n"
    "2020-01-02 03:04:05,679{GMT}\tINFO\t[worker 0] jepsen.util: 0\t:invoke\t:read\tnil\n"
    "2020-01-02 03:04:05,680{GMT}\tINFO\t[worker 0] jepsen.util: 0\t:ok\t:read\t3\n"
)
PARTS = [(("r", ":x", 1), ("w", ":y", 2), ("append", 9, 1)), (("r", ":x", None),)]


@cases(
    "text, expected",
    ("times are the order", TIMED, {"inv": [5, 7], "ret": [9, 9], "f": [WRITE, READ], "clock": None}),
    ("times before one are shifted", ours("0 invoke read time=-5; 0 ok read 1 time=0"), {"inv": [1], "ret": [6]}),
    ("one line without time makes lines the order", UNTIMED, {"inv": [1, 3], "clock": [[9, 0], [3, 0]]}),
    ("times of edn are only shown", edn("0 invoke read time=0.5; 1 invoke read time=7"), {"clock": [[0, 0], [7, 0]]}),
    ("index is the order", BACKWARDS, {"inv": [1, 3], "ret": [2, 0], "clock": [[9, 5], [1, 0]]}),
    ("owners and tokens", OWNED, {"owner": [1, 7, 1], "token": [7, 7, NONE]}),
    ("a token in a grant's value", edn('0 invoke acquire; 0 ok acquire {"client":"a","fence":5}'), {"token": [5]}),
    ("a word is no token", edn('0 invoke acquire; 0 ok acquire {"client":"a","token":"x"}'), {"token": [NONE]}),
    ("leases and keys", OWNED, {"ttl": [100, 0, 0], "session": [1, 0, 0], "keys": ("a", "b"), "key": [0, 1, 0]}),
    ("names of processes", WORKERS, {"process": [8, 7, 9, 10, 11], "owner": [9, 8, 10, 11, 12]}),
    ("pairs that are no keys", edn("0 invoke write [1,2]; 1 invoke cas [3,4]"), {"keys": ("",), "value": [(1, 2), 4]}),
    ("tagged independent keys", TAGGED, {"keys": (":k",), "value": [(1, 2)]}),
    ("locks with keys", edn("0 invoke acquire [1,null]; 0 ok acquire [1,null]"), {"keys": ("1",)}),
    ("counters", COUNTED, {"f": [F.ADD] * 5, "value": [-2, 1, -1, -5, 5]}),
    ("transactions", TRANSACTIONS, {"value": PARTS}),
    ("a reader by its value", ours("0 invoke acquire read time=1"), {"flags": [SHARED]}),
    ("a reader by a keyword", ours("0 invoke acquire :shared time=1"), {"flags": [SHARED]}),
    ("a writer by its value", ours("0 invoke acquire write time=1"), {"flags": [0]}),
    ("a reader by a field", ours("0 invoke acquire time=1 shared=true"), {"flags": [SHARED]}),
    ("a writer by a field", ours("0 invoke acquire time=1 shared=false"), {"flags": [0]}),
    ("keys of different types", KEYS, {"keys": ("1", '"1"', "b")}),
    ("an error where a value stands", LATE, {"reason": [Reason.TIMEOUT, Reason.NONE], "errors": [":timed-out", ""]}),
    ("other loggers are passed over", OTHERS, {"value": [3]}),
    ("blanks instead of tabs", BLANKS, {"value": [2], "base": [1], "reason": [Reason.TIMEOUT]}),
)
def test_events_become_the_expected_rows(tmp_path: Path, text: str, expected: dict[str, Any]) -> None:
    assert described(loaded(tmp_path, text), expected) == expected


@cases(
    "spellings, f, flags",
    ("acquire lock acquire-write", F.ACQUIRE, 0),
    ("acquire-read read-lock", F.ACQUIRE, SHARED),
    ("try-acquire try_lock", F.TRY_ACQUIRE, 0),
    ("try-acquire-shared", F.TRY_ACQUIRE, SHARED),
    ("release unlock", F.RELEASE, 0),
    *((f.name.lower().replace("_", "-"), f, 0) for f in (F.RENEW, F.SESSION_OPEN, F.KEEP_ALIVE, F.LOST, F.BELIEF)),
)
def test_spellings(tmp_path: Path, spellings: str, f: F, flags: int) -> None:
    for word in spellings.split():
        history = loaded(tmp_path, ours(f"0 invoke {word} time=1; 0 ok {word} time=2"))
        assert described(history, ("f", "flags", "value")) == {"f": [f], "flags": [flags], "value": ["-"]}, word


@cases(
    "f, reason, facts",
    ("try-acquire", Reason.HELD, [{}, {"error": "held"}, {"error": "lock is busy"}]),
    ("try-acquire", Reason.NONE, [{"error": "oops"}, {"error": "not locked"}]),
    *((f, Reason.NONE, [{}]) for f in ("acquire", "release", "write")),
    ("acquire", Reason.TIMEOUT, [{"error": "timeout"}, {"error": ["timed-out", None]}]),
    ("acquire", Reason.UNAVAILABLE, [{"error": "temporarily unavailable"}]),
    ("acquire", Reason.HELD, [{"reason": "held", "error": "timeout"}]),
    ("release", Reason.NOT_OWNER, [{"error": "not-owner"}, {"error": "not-held"}]),
    ("write", Reason.STALE_TOKEN, [{"token": 3}, {"token": 3, "error": "rejected"}]),
    ("write", Reason.UNAVAILABLE, [{"token": 3, "error": "unavailable"}]),
    ("read", Reason.TIMEOUT, [{"token": 3, "error": "timeout"}]),
)
def test_reasons(tmp_path: Path, f: str, reason: Reason, facts: list[dict[str, Any]]) -> None:
    for more in facts:
        failed = [event(0, "invoke", f, 1, time=1), event(0, "fail", f, 1, time=2, **more)]
        assert column(loaded(tmp_path, files.jsonl(failed)), "reason") == [reason], more


@pytest.mark.parametrize("name", WRITERS)
def test_independent_keys(tmp_path: Path, name: str) -> None:
    begun = '0 invoke cas ["x",[1,2]]; nemesis info start null; 1 invoke read ["y",null]; '
    text = WRITERS[name](told(begun + '0 fail cas ["x",[1,2]]; 1 ok read ["y",4]; 0 invoke write ["y",[1,2]]'))
    expected = {"keys": ("x", "y"), "key": [0, 1, 1], "value": [2, 4, (1, 2)], "base": [1, "-", "-"]}
    assert described(loaded(tmp_path, text), expected) == expected


def test_different_values_stay_different_and_hashable(tmp_path: Path) -> None:
    written: list[Any] = [None, 0, "0", [], {}, [[]], {"a": [1]}, [["a", [1]]], "nil", 10**30, -0.5]
    events = (event(n, "invoke", "write", value, time=1) for n, value in enumerate(written))
    history = loaded(tmp_path, files.jsonl(events))
    assert len(set(column(history, "value"))) == len(set(values(history))) == len(written)
    assert values(history)[:4] == [None, 0, "0", ()]


def test_faults(tmp_path: Path) -> None:
    words = ("start-partition null", "start-partition n1", "", 'kill ["n2"]', 'kill ["n2"]', "stop-partition")
    lines = [f"nemesis info {word}" if word else "0 invoke read" for word in (*words, "stop-partition done", "start")]
    history = loaded(tmp_path, edn("; ".join(lines)))
    assert [(fault.name, fault.target, fault.begun, fault.applied) for fault in history.faults] == [
        ("start-partition", "n1", 1, 2),
        ("kill", '["n2"]', 4, 5),
    ]
    assert [(fault.healing, fault.healed) for fault in history.faults] == [(6, 7), (8, 0)]
    assert len(history) == 1


@pytest.mark.parametrize(
    ("family", "failed_cas", "nil_read"),
    [(Family.EDN, "ignored", "unknown"), (Family.LOG, "observes", "value"), (Family.TEXT, "ignored", "unknown")],
)
def test_defaults_of_formats(family: Family, failed_cas: str, nil_read: str) -> None:
    assert (family.settings.failed_cas, family.settings.nil_read) == (failed_cas, nil_read)
    assert not family.timed


def test_our_own_files_and_their_older_format(tmp_path: Path) -> None:
    history = Book().acquire(1, 2, 5, key=1).history()
    path = tmp_path / "looks-like.jsonl"
    save(history, path)
    assert load_with_defaults(path).family == Family.RECORDED
    loaded(tmp_path, TIMED)
    assert load_with_defaults(tmp_path / "history").family == Family.JSONL
    older = dict(history.columns) | {"key": history.columns["key"].astype("<u2")}
    with pa.memory_map(str(path)) as source:
        about = json.loads(pa.ipc.open_file(source).schema.metadata[b"fencepost"])
    text = json.dumps(about | {"format": 2}).encode()
    metadata = {b"fencepost": text, b"fencepost-digest": _digest(text, older)}
    table = pa.table({name: pa.array(values) for name, values in older.items()}).replace_schema_metadata(metadata)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    again = load_with_defaults(path).history
    assert (again.columns["key"].dtype, column(again, "key")) == (np.dtype("<u4"), [1])


INVOKE = event(0, "invoke", "write", 1, time=1)
OK = event(0, "ok", "write", 1, time=2)


def refused(folder: Path, content: str | bytes) -> str:
    message = message_of(BadHistory, loaded, folder, content)
    assert message.startswith(str(folder / "history"))
    assert "\n" not in message
    assert len(message) < len(str(folder)) + 900
    assert message.isprintable()
    return message.removeprefix(str(folder / "history"))


GRANTED = "0 invoke acquire time=1; 0 ok acquire time=2 owner=x"
CHANGED = '0 invoke txn [["w","x",1]] time=1; 0 ok txn [["w","x",2]] time=2'


@cases(
    "events, message",
    ([OK], ":1: process 0 ends write (ok), but has nothing open"),
    ([INVOKE, {**OK, "time": 0}], ":2: process 0 ends write"),  # completed before it was invoked
    ([INVOKE, OK, {**OK, "time": 3}], ":3: process 0 ends write (ok), but has nothing open: its write ended in line 2"),
    ([INVOKE, {**INVOKE, "time": 2}], ":2: process 0 invokes write while its write of line 1 is open"),
    ([INVOKE, event(0, "ok", "read", 1, time=2)], ":2: process 0 ends read, but line 1 invoked write"),
    ([INVOKE, event(0, "ok", "write", 2, time=2)], ":2: a write of 2 ended, but line 1 invoked one of 1"),
    ([INVOKE, {**OK, "key": "b"}, {**INVOKE, "key": "a", "time": 3}, {**OK, "key": "b", "time": 4}], ":4: its key is"),
    ([{**INVOKE, "token": 1}, {**OK, "token": 2}], ":2: its token is another than in line 1"),
    ([{**INVOKE, "owner": "a"}, {**OK, "owner": "b"}], ":2: its owner is another than in line 1"),
    ([event(0, "invoke", "read", time=1), {"process": 0, "type": "ok", "f": "read", "time": 2}], "returned no value"),
    ([event(0, "invoke", "frobnicate", time=1)], ":1: frobnicate is not an operation; known are acquire, "),
    ([event(0, "perhaps", "read", time=1)], ":1: perhaps is not a type; known are invoke, ok, fail, info"),
    ([event(None, "invoke", "read", time=1)], ":1: an event without process"),
    *(([event(who, "invoke", "read", time=1)], f":1: {json.dumps(who)} is not a process") for who in (1.5, True, [1])),
    ([event(0, 7, "read", time=1)], ":1: 7 is not a type"),  # type: ignore[arg-type]
    ([{"process": 0, "type": "invoke", "f": "write", "time": 1}], ":1: a write without a value"),
    ([{**INVOKE, "time": "now"}], ':1: time is "now", not a whole number'),
    ([{**INVOKE, "time": True}], ":1: time is true, not a whole number"),
    ([{**INVOKE, "time": 10**30}], ":1: time 1000"),
    ([{**INVOKE, "token": -1}], ":1: token -1 is out of range"),
    ([{**INVOKE, "ttl": -5}], ":1: ttl -5 is out of range"),
    ([{**INVOKE, "shared": "yes"}], ":1: shared is yes, not true or false"),
    ([{**INVOKE, "reason": "why not"}], ":1: why not is not a reason; known are none, held, "),
    *(([event(0, "invoke", "cas", value, time=1)], ":1: a cas needs a value [old new]") for value in (5, [1, 2, 3])),
    ([event(0, "invoke", "txn", 5, time=1)], ":1: a txn: a list of operations is wanted"),
    ([event(0, "invoke", "txn", [["w", "x"]], time=1)], ':1: a txn: ["w", "x"] is not [f key value]'),
    ([event(0, "invoke", "txn", time=1)], ":1: a txn: it has no value"),
    (told(CHANGED), ":2: a txn: it ended as another than it was invoked"),
    ([event(0, "invoke", "increment", "a", time=1)], ":1: an increment by something that is no number"),
    ([INVOKE, event(1, "invoke", "write", True, time=1)], ":2: 1 and true are both values here"),
    ([INVOKE, event(1, "invoke", "write", [[1.0]], time=1)], ":2: 1 and 1.0 are both values here"),
    (told('0 invoke acquire; 0 ok acquire {"fence":-1}'), ":2: -1 is not a token"),
    (told(GRANTED + "; 0 invoke release time=3"), ":3: no owner, though others name theirs (line 2)"),
)
def test_contradictions_and_wrong_types(tmp_path: Path, events: list[Event], message: str) -> None:
    assert message in refused(tmp_path, files.jsonl(events))


def test_two_grants_to_one_owner_are_read_and_left_to_the_verdict(tmp_path: Path) -> None:
    grants = [event(n, kind, "acquire", time=1, owner="x") for n in range(2) for kind in ("invoke", "ok")]
    assert len(loaded(tmp_path, files.jsonl(grants))) == 2


WRITING = '{"process": 0, "type": "invoke", "f": "write", "value": '
JSON_LINES = [
    ("{", "not JSON"),
    ("[1]", "not an object"),
    ('{"process": 0} {"process": 1}', "not JSON: Extra data"),
    ('{"process": 0, "process": 0, "type": "invoke", "f": "read"}', "a key that stands twice"),
    (WRITING + '{"a": 1, "a": 1}}', "stands twice in one map"),
    (WRITING + "NaN}", "NaN is no value"),
    (WRITING + "1e999}", "out of range"),
    (WRITING + "9" * 5000 + "}", "more than 1000 digits"),
    (WRITING + '"\\ud800"}', "half a character"),
    (WRITING + '"a\tb"}', "not JSON: Invalid control character"),
    (WRITING + "[" * 101 + "]" * 101 + "}", "nested deeper than 100"),
    (WRITING + "[" * 200_000, "nested deeper than 100"),
    ("[" * 200_000, "nested deeper than 100"),
]


@pytest.mark.parametrize(("line", "message"), JSON_LINES, ids=[f"{n}" for n in range(len(JSON_LINES))])
@pytest.mark.parametrize("before", [1, 300])
def test_json_lines(tmp_path: Path, line: str, message: str, before: int) -> None:
    good = [event(n, "invoke", "write", n, time=n) for n in range(1, before + 1)]
    said = refused(tmp_path, files.jsonl(good) + line + "\n" + files.jsonl([event(0, "ok", "write", 7, time=9)]))
    assert said.startswith(f":{before + 1}: ")
    assert message in said


@cases(
    "content, message",
    (b"", ": an empty file"), (b"\n \n", ": no event"), (b"; nothing\n", ": no event"), (b"[]", ": no event"),
    (b"{:process :nemesis, :type :info, :f :start}", ": no event but those of the nemesis"),
    (b"hello\nworld\n", ":1: of no known format"), (b"\x89PNG\r\n\x1a\n\0\0", ": a binary file of no known format"),
    (b"\x1f\x8b\x08", ": compressed (gzip)"), (b"JEPSEN\0\0", ": Jepsen's binary test file"),
    (b"FENCEREC", ": one worker's recording"), (b"ARROW1", ": not a complete Arrow file"),
    (b'[{"process": 0}]', ":1: a JSON array"), ('{"process": 0}\n'.encode("utf-16"), ": a binary file"),
    (b'{"process": 0, "type": "invoke", "f": "r\xff"}', ":1: not UTF-8: b'\\xff"),
    (b"{:a 1}\n" + b" " * 70_000 + b"\0", ":2: a NUL byte"),
    (BEGUN + log("0\t:ok\t:re"), ":2: not an event"), (BEGUN + "INF\n", ":2: not an event"),
    (log("1   :invoke :write    1 2"), ":1: not one value"),  # behind blanks
    (files.edn(event(who, "invoke", "read", index=3) for who in (0, 1)), ":2: index 3 stands in line 1 already"),
)  # fmt: skip
def test_a_file_that_is_no_history_is_refused(tmp_path: Path, content: bytes | str, message: str) -> None:
    assert refused(tmp_path, content).startswith(message)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises((FileNotFoundError, IsADirectoryError)):
            load_with_defaults(path)


def test_byte_order_marks_and_line_ends_make_no_difference(tmp_path: Path) -> None:
    for writer in WRITERS.values():
        content = writer([event(0, "invoke", "read"), event(0, "ok", "read", 5)])
        same = content.replace("\n", "\r\n"), content.rstrip("\n"), content + "\n\n"
        for changed in (content, "\ufeff" + content, *same):
            assert values(loaded(tmp_path, changed)) == [5]


@pytest.mark.parametrize("name", CHECKS)
def test_random_files_that_are_read_as_many_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.formats.lines.FEW", 0)
    monkeypatch.setattr("checkers.formats.lines.CHUNK", 5)
    words = {CHECKS[name](Random(f"0/{number}")) for number in range(100)}
    assert words == ({"refused", "a history"} if name == "format-damaged" else {name.removeprefix("format-")})
