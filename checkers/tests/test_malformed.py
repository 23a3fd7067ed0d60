"""Damaged, contradictory and hostile files: one line that names file and line, and nothing else."""

from pathlib import Path
from random import Random

import pytest

from checkers.formats.formats import load_any
from checkers.history.history import BadHistory
from checkers.tests import files
from checkers.tests.build import cases
from checkers.tests.files import Event, event, loaded, told, values
from checkers.tests.fuzz_formats import CHECKS, WRITERS

INVOKE = event(0, "invoke", "write", 1, time=1)
OK = event(0, "ok", "write", 1, time=2)


def refused(folder: Path, content: str | bytes) -> str:
    with pytest.raises(BadHistory) as caught:
        loaded(folder, content)
    message = str(caught.value)
    assert message.startswith(str(folder / "history"))
    assert "\n" not in message
    assert len(message) < len(str(folder)) + 900
    assert message.isprintable()
    return message.removeprefix(str(folder / "history"))


OWNED = "0 invoke acquire time=1; 0 ok acquire time=2 owner=x"
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
    ([event(1.5, "invoke", "read", time=1)], ":1: 1.5 is not a process"),
    ([event(True, "invoke", "read", time=1)], ":1: true is not a process"),
    ([event([1], "invoke", "read", time=1)], ":1: [1] is not a process"),
    ([event(0, 7, "read", time=1)], ":1: 7 is not a type"),  # type: ignore[arg-type]
    ([{"process": 0, "type": "invoke", "f": "write", "time": 1}], ":1: a write without a value"),
    ([{**INVOKE, "time": "now"}], ':1: time is "now", not a whole number'),
    ([{**INVOKE, "time": True}], ":1: time is true, not a whole number"),
    ([{**INVOKE, "time": 10**30}], ":1: time 1000"),
    ([{**INVOKE, "token": -1}], ":1: token -1 is out of range"),
    ([{**INVOKE, "ttl": -5}], ":1: ttl -5 is out of range"),
    ([{**INVOKE, "shared": "yes"}], ":1: shared is yes, not true or false"),
    ([{**INVOKE, "reason": "why not"}], ":1: why not is not a reason; known are none, held, "),
    ([event(0, "invoke", "cas", 5, time=1)], ":1: a cas needs a value [old new]"),
    ([event(0, "invoke", "cas", [1, 2, 3], time=1)], ":1: a cas needs a value [old new]"),
    ([event(0, "invoke", "txn", 5, time=1)], ":1: a txn: a list of operations is wanted"),
    ([event(0, "invoke", "txn", [["w", "x"]], time=1)], ':1: a txn: ["w", "x"] is not [f key value]'),
    ([event(0, "invoke", "txn", time=1)], ":1: a txn: it has no value"),
    (told(CHANGED), ":2: a txn: it ended as another than it was invoked"),
    ([event(0, "invoke", "increment", "a", time=1)], ":1: an increment by something that is no number"),
    ([INVOKE, event(1, "invoke", "write", True, time=1)], ":2: 1 and true are both values here"),
    ([INVOKE, event(1, "invoke", "write", [[1.0]], time=1)], ":2: 1 and 1.0 are both values here"),
    (told(OWNED + "; 0 invoke release time=3"), ":3: no owner, though others name theirs (line 2)"),
)
def test_contradictions_and_wrong_types(tmp_path: Path, events: list[Event], message: str) -> None:
    assert message in refused(tmp_path, files.jsonl(events))


def test_two_grants_to_one_owner_are_for_the_verdict(tmp_path: Path) -> None:
    grants = [event(n, kind, "acquire", time=1, owner="x") for n in range(2) for kind in ("invoke", "ok")]
    assert len(loaded(tmp_path, files.jsonl(grants))) == 2


def test_one_index_twice(tmp_path: Path) -> None:
    events = [event(0, "invoke", "read", index=3), event(1, "invoke", "read", index=3)]
    assert refused(tmp_path, files.edn(events)) == ":2: index 3 stands in line 1 already"


WRITE = '{"process": 0, "type": "invoke", "f": "write", "value": '
JSON_LINES = [
    ("{", "not JSON"),
    ("[1]", "not an object"),
    ('{"process": 0} {"process": 1}', "not JSON: Extra data"),
    ('{"process": 0, "process": 0, "type": "invoke", "f": "read"}', "a key that stands twice"),
    (WRITE + '{"a": 1, "a": 1}}', "stands twice in one map"),
    (WRITE + "NaN}", "NaN is no value"),
    (WRITE + "1e999}", "out of range"),
    (WRITE + "9" * 5000 + "}", "more than 1000 digits"),
    (WRITE + '"\\ud800"}', "half a character"),
    (WRITE + '"a\tb"}', "not JSON: Invalid control character"),
    (WRITE + "[" * 101 + "]" * 101 + "}", "nested deeper than 100"),
    (WRITE + "[" * 200_000, "nested deeper than 100"),
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
    (b"", ": an empty file"),
    (b"\n \n", ": no event"),
    (b"; nothing\n", ": no event"),
    (b"[]", ": no event"),
    (b"hello\nworld\n", ":1: of no known format"),
    (b"\x89PNG\r\n\x1a\n\0\0", ": a binary file of no known format"),
    (b"\x1f\x8b\x08", ": compressed (gzip)"),
    (b"JEPSEN\0\0", ": Jepsen's binary test file"),
    (b"FENCEREC", ": one worker's recording"),
    (b"ARROW1", ": not a complete Arrow file"),
    (b'[{"process": 0}]', ":1: a JSON array"),
    (b'{"process": 0, "type": "invoke", "f": "r\xff"}', ":1: not UTF-8: b'\\xff"),
    (b"{:a 1}\n" + b" " * 70_000 + b"\0", ":2: a NUL byte"),
    ('{"process": 0}\n'.encode("utf-16"), ": a binary file"),
)
def test_what_is_no_history(tmp_path: Path, content: bytes, message: str) -> None:
    assert refused(tmp_path, content).startswith(message)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises((FileNotFoundError, IsADirectoryError)):
            load_any(path)


def test_marks_and_ends_of_lines(tmp_path: Path) -> None:
    for writer in WRITERS.values():
        content = writer([event(0, "invoke", "read"), event(0, "ok", "read", 5)])
        same = content.replace("\n", "\r\n"), content.rstrip("\n"), content + "\n\n"
        for changed in (content, "\ufeff" + content, *same):
            assert values(loaded(tmp_path, changed)) == [5]


@pytest.mark.parametrize("name", CHECKS)
def test_random_files_that_are_read_as_many_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As few lines the fuzz reads them."""
    monkeypatch.setattr("checkers.formats.lines.FEW", 0)
    monkeypatch.setattr("checkers.formats.lines.CHUNK", 5)
    words = {CHECKS[name](Random(f"0/{number}")) for number in range(100)}
    assert words == ({"refused", "a history"} if name == "format-damaged" else {name.removeprefix("format-")})
