"""Histories from elsewhere: what their events become, in every format."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from checkers import history as native
from checkers.formats.formats import Family, load_any, load_with_defaults
from checkers.history import BadHistory, malformed, save
from checkers.tests import files
from checkers.tests.build import Book
from checkers.tests.files import Event, column, event, loaded, values
from checkers.tests.fuzz_formats import WRITERS
from checkers.wire import NONE, SHARED, F, Outcome, Reason

FAMILIES = {"jsonl": Family.FOREIGN_JSONL, "edn": Family.EDN, "text": Family.TEXT, "log": Family.LOG}


def ours(*lines: Event) -> str:
    """JSONL with times: every event names its own."""
    return files.jsonl(lines)


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_tells_the_same(tmp_path: Path, name: str) -> None:
    told = loaded(
        tmp_path,
        WRITERS[name](
            [
                event(0, "invoke", "write", 3),
                event(1, "invoke", "read"),
                event(0, "ok", "write", 3),
                event(2, "invoke", "cas", [3, 4]),
                event(1, "ok", "read", 3),
                event(2, "info", "cas", [3, 4]),
                event(2, "invoke", "cas", [4, 5]),
                event(1, "invoke", "read"),
            ]
        ),
    )
    assert column(told, "f") == [F.WRITE, F.READ, F.CAS, F.CAS, F.READ]
    assert column(told, "outcome") == [Outcome.OK, Outcome.OK, Outcome.INFO, Outcome.INFO, Outcome.INFO]
    assert column(told, "inv") == [1, 2, 4, 7, 8]
    assert column(told, "ret") == [3, 5, 6, 0, 0]
    assert column(told, "process") == [0, 1, 2, 2, 1]
    assert column(told, "owner") == [1, 2, 3, 3, 2]
    assert values(told) == [3, 3, 4, 5, "-"]
    assert values(told, "base") == ["-", "-", 3, 4, "-"]
    assert told.lines is not None
    assert told.lines.tolist() == [[1, 3], [2, 5], [4, 6], [7, 0], [8, 0]]
    assert told.facts.keys == ("",)
    assert told.facts.lane == "history"
    assert told.clock is not None
    assert malformed(told) is None
    assert load_with_defaults(tmp_path / "history").family == FAMILIES[name]


def test_times_are_the_order_where_every_line_has_one(tmp_path: Path) -> None:
    told = loaded(
        tmp_path,
        ours(
            event(1, "invoke", "read", time=7),
            event(0, "ok", "write", 1, time=9),
            event(1, "ok", "read", 1, time=9),
            event(0, "invoke", "write", 1, time=5),
        ),
    )
    assert (column(told, "inv"), column(told, "ret")) == ([5, 7], [9, 9])
    assert column(told, "f") == [F.WRITE, F.READ]
    assert told.clock is None
    assert load_with_defaults(tmp_path / "history").family == Family.JSONL


def test_times_before_one_are_shifted(tmp_path: Path) -> None:
    told = loaded(tmp_path, ours(event(0, "invoke", "read", time=-5), event(0, "ok", "read", 1, time=0)))
    assert (column(told, "inv"), column(told, "ret")) == ([1], [6])


def test_one_line_without_time_makes_lines_the_order(tmp_path: Path) -> None:
    told = loaded(
        tmp_path,
        ours(event(0, "invoke", "read", time=9), event(0, "ok", "read", 1), event(1, "invoke", "read", time=3)),
    )
    assert column(told, "inv") == [1, 3]
    assert told.clock is not None
    assert told.clock.tolist() == [[9, 0], [3, 0]]


def test_foreign_times_may_go_backwards_and_index_is_the_order(tmp_path: Path) -> None:
    told = loaded(
        tmp_path,
        files.edn(
            [
                event(0, "ok", "read", 1, index=1, time=5),
                event(0, "invoke", "read", index=0, time=9),
                event(1, "invoke", "read", index=7, time=1),
            ]
        ),
    )
    assert (column(told, "inv"), column(told, "ret")) == ([1, 3], [2, 0])
    assert told.clock is not None
    assert told.clock.tolist() == [[9, 5], [1, 0]]


SPELLINGS = [
    ("acquire", F.ACQUIRE, 0),
    ("lock", F.ACQUIRE, 0),
    ("try-acquire", F.TRY_ACQUIRE, 0),
    ("try_lock", F.TRY_ACQUIRE, 0),
    ("acquire-read", F.ACQUIRE, SHARED),
    ("read-lock", F.ACQUIRE, SHARED),
    ("try-acquire-shared", F.TRY_ACQUIRE, SHARED),
    ("acquire-write", F.ACQUIRE, 0),
    ("release", F.RELEASE, 0),
    ("unlock", F.RELEASE, 0),
    ("renew", F.RENEW, 0),
    ("session-open", F.SESSION_OPEN, 0),
    ("keep-alive", F.KEEP_ALIVE, 0),
    ("lost", F.LOST, 0),
    ("belief", F.BELIEF, 0),
]


@pytest.mark.parametrize(("spelling", "f", "flags"), SPELLINGS)
def test_spellings(tmp_path: Path, spelling: str, f: F, flags: int) -> None:
    told = loaded(tmp_path, ours(event(0, "invoke", spelling, time=1), event(0, "ok", spelling, time=2)))
    assert (column(told, "f"), column(told, "flags"), column(told, "value")) == ([f], [flags], [NONE])


@pytest.mark.parametrize(
    ("invoked", "flags"),
    [
        (event(0, "invoke", "acquire", "read", time=1), SHARED),
        (event(0, "invoke", "acquire", ":shared", time=1), SHARED),
        (event(0, "invoke", "acquire", "write", time=1), 0),
        (event(0, "invoke", "acquire", time=1, shared=True), SHARED),
        (event(0, "invoke", "acquire", time=1, shared=False), 0),
    ],
)
def test_readers(tmp_path: Path, invoked: Event, flags: int) -> None:
    assert column(loaded(tmp_path, ours(invoked)), "flags") == [flags]


REASONS = [
    ("try-acquire", {}, Reason.HELD),
    ("try-acquire", {"error": "held"}, Reason.HELD),
    ("try-acquire", {"error": "lock is busy"}, Reason.HELD),
    ("try-acquire", {"error": "oops"}, Reason.NONE),
    ("try-acquire", {"error": "not locked"}, Reason.NONE),
    ("acquire", {}, Reason.NONE),
    ("acquire", {"error": "timeout"}, Reason.TIMEOUT),
    ("acquire", {"error": ["timed-out", None]}, Reason.TIMEOUT),
    ("acquire", {"error": "temporarily unavailable"}, Reason.UNAVAILABLE),
    ("acquire", {"reason": "held", "error": "timeout"}, Reason.HELD),
    ("release", {"error": "not-owner"}, Reason.NOT_OWNER),
    ("release", {"error": "not-held"}, Reason.NOT_OWNER),
    ("release", {}, Reason.NONE),
    ("write", {"token": 3}, Reason.STALE_TOKEN),
    ("write", {"token": 3, "error": "rejected"}, Reason.STALE_TOKEN),
    ("write", {"token": 3, "error": "unavailable"}, Reason.UNAVAILABLE),
    ("read", {"token": 3, "error": "timeout"}, Reason.TIMEOUT),
    ("write", {}, Reason.NONE),
]


@pytest.mark.parametrize(("f", "more", "reason"), REASONS)
def test_reasons(tmp_path: Path, f: str, more: dict[str, Any], reason: Reason) -> None:
    told = loaded(tmp_path, ours(event(0, "invoke", f, 1, time=1), event(0, "fail", f, 1, time=2, **more)))
    assert column(told, "reason") == [reason]


def test_an_error_where_a_value_stands(tmp_path: Path) -> None:
    told = loaded(
        tmp_path,
        "INFO  jepsen.util - 0\t:invoke\t:write\t4\nINFO  jepsen.util - 0\t:fail\t:write\t:timed-out\n"
        "INFO  jepsen.util - 1\t:invoke\t:cas\t[1 2]\nINFO  jepsen.util - 1\t:fail\t:cas\t[1 2]\n",
    )
    assert column(told, "reason") == [Reason.TIMEOUT, Reason.NONE]
    assert [told.errors[place] for place in column(told, "error")] == [":timed-out", ""]


def test_other_loggers_are_passed_over(tmp_path: Path) -> None:
    told = loaded(
        tmp_path,
        "2020-01-02 03:04:05,678{GMT}\tINFO\t[main] jepsen.core: Hello\n{:not an}\n"
        "2020-01-02 03:04:05,679{GMT}\tINFO\t[worker 0] jepsen.util: 0\t:invoke\t:read\tnil\n"
        "2020-01-02 03:04:05,680{GMT}\tINFO\t[worker 0] jepsen.util: 0\t:ok\t:read\t3\n",
    )
    assert values(told) == [3]
    with pytest.raises(BadHistory, match="history:2: not an event"):
        loaded(tmp_path, "INFO  jepsen.util - 0\t:invoke\t:read\tnil\nINFO  jepsen.util - 0\t:ok\t:re\n")
    with pytest.raises(BadHistory, match="history:2: not an event"):
        loaded(tmp_path, "INFO  jepsen.util - 0\t:invoke\t:read\tnil\nINF\n")


def test_blanks_instead_of_tabs(tmp_path: Path) -> None:
    told = loaded(
        tmp_path,
        "INFO  jepsen.util - 1   :invoke :cas    [1 2]\nINFO  jepsen.util - 1   :fail   :cas    [1 2]  timed out\n",
    )
    assert (values(told), values(told, "base"), column(told, "reason")) == ([2], [1], [Reason.TIMEOUT])
    with pytest.raises(BadHistory, match="history:1: not one value"):
        loaded(tmp_path, "INFO  jepsen.util - 1   :invoke :write    1 2\n")


def test_owners_tokens_and_keys(tmp_path: Path) -> None:
    told = loaded(
        tmp_path,
        ours(
            event(5, "invoke", "acquire", time=1, key="a"),
            event(5, "ok", "acquire", time=2, owner="x", token=7, ttl=100, session="s"),
            event(5, "invoke", "write", 1, time=3, key="b", token=7),
            event(5, "ok", "write", time=4),
            event(5, "invoke", "release", time=5, key="a", owner="x"),
            event(5, "ok", "release", time=6),
        ),
    )
    assert column(told, "owner") == [1, 7, 1]
    assert column(told, "token") == [7, 7, NONE]
    assert (column(told, "ttl"), column(told, "session")) == ([100, 0, 0], [1, 0, 0])
    assert (told.facts.keys, column(told, "key")) == (("a", "b"), [0, 1, 0])


def test_keys_of_different_types_have_different_names(tmp_path: Path) -> None:
    told = loaded(tmp_path, ours(*(event(n, "invoke", "read", time=1, key=key) for n, key in enumerate((1, "1", "b")))))
    assert told.facts.keys == ("1", '"1"', "b")


def test_processes_may_have_names(tmp_path: Path) -> None:
    told = loaded(tmp_path, ours(*(event(who, "invoke", "read", time=1) for who in ("a", 7, "b", -1, 10**12))))
    assert column(told, "process") == [8, 7, 9, 10, 11]
    assert len(set(column(told, "owner"))) == 5


@pytest.mark.parametrize("name", WRITERS)
def test_independent_keys(tmp_path: Path, name: str) -> None:
    told = loaded(
        tmp_path,
        WRITERS[name](
            [
                event(0, "invoke", "cas", ["x", [1, 2]]),
                event("nemesis", "info", "start", None),
                event(1, "invoke", "read", ["y", None]),
                event(0, "fail", "cas", ["x", [1, 2]]),
                event(1, "ok", "read", ["y", 4]),
                event(0, "invoke", "write", ["y", [1, 2]]),
            ]
        ),
    )
    assert (told.facts.keys, column(told, "key")) == (("x", "y"), [0, 1, 1])
    assert values(told) == [2, 4, (1, 2)]
    assert values(told, "base") == [1, "-", "-"]


def test_pairs_that_are_no_keys(tmp_path: Path) -> None:
    told = loaded(tmp_path, files.edn([event(0, "invoke", "write", [1, 2]), event(1, "invoke", "cas", [3, 4])]))
    assert told.facts.keys == ("",)
    assert values(told) == [(1, 2), 4]


def test_tagged_independent_keys(tmp_path: Path) -> None:
    line = "{{:process 0, :type :{}, :f :read, :value #jepsen.independent/tuple [:k {}]}}\n"
    told = loaded(tmp_path, line.format("invoke", "nil") + line.format("ok", "[1 2]"))
    assert (told.facts.keys, values(told)) == ((":k",), [(1, 2)])


def test_locks_with_independent_keys(tmp_path: Path) -> None:
    told = loaded(tmp_path, files.edn([event(0, "invoke", "acquire", [1, None]), event(0, "ok", "acquire", [1, None])]))
    assert told.facts.keys == ("1",)


def test_counters(tmp_path: Path) -> None:
    told = loaded(
        tmp_path,
        ours(
            event(0, "invoke", "add", -2, time=1),
            event(1, "invoke", "increment", time=2),
            event(2, "invoke", "decrement", time=3),
            event(3, "invoke", "dec", 5, time=4),
            event(4, "invoke", "inc", 5, time=5),
        ),
    )
    assert set(column(told, "f")) == {F.ADD}
    assert values(told) == [-2, 1, -1, -5, 5]


def test_transactions(tmp_path: Path) -> None:
    told = loaded(
        tmp_path,
        "{:process 0, :type :invoke, :f :txn, :value [[:read :x nil] [:w :y 2] [:append 9 1]]}\n"
        "{:process 0, :type :ok, :f :txn, :value [[:read :x 1] [:w :y 2] [:append 9 1]]}\n"
        "{:process 0, :type :invoke, :f :txn, :value [[:r :x nil]]}\n",
    )
    assert values(told) == [(("r", ":x", 1), ("w", ":y", 2), ("append", 9, 1)), (("r", ":x", None),)]


def test_values_are_hashable_and_told_apart(tmp_path: Path) -> None:
    written: list[Any] = [None, 0, "0", [], {}, [[]], {"a": [1]}, [["a", [1]]], "nil", 10**30, -0.5]
    told = loaded(tmp_path, ours(*(event(n, "invoke", "write", value, time=1) for n, value in enumerate(written))))
    assert len(set(column(told, "value"))) == len(written)
    assert len(set(values(told))) == len(written)
    assert values(told)[:4] == [None, 0, "0", ()]


def test_faults(tmp_path: Path) -> None:
    told = loaded(
        tmp_path,
        files.edn(
            [
                event("nemesis", "info", "start-partition", None),
                event("nemesis", "info", "start-partition", "n1"),
                event(0, "invoke", "read"),
                event("nemesis", "info", "kill", ["n2"]),
                event("nemesis", "info", "kill", ["n2"]),
                event("nemesis", "info", "stop-partition"),
                event("nemesis", "info", "stop-partition", "done"),
                event("nemesis", "info", "start"),
            ]
        ),
    )
    assert [(fault.name, fault.target, fault.begun, fault.applied) for fault in told.faults] == [
        ("start-partition", "n1", 1, 2),
        ("kill", '["n2"]', 4, 5),
    ]
    assert [(fault.healing, fault.healed) for fault in told.faults] == [(6, 7), (8, 0)]
    assert len(told) == 1


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
    older = dict(history.columns) | {"key": history.columns["key"].astype("<u2")}
    with pa.memory_map(str(path)) as source:
        about = json.loads(pa.ipc.open_file(source).schema.metadata[b"fencepost"])
    text = json.dumps(about | {"format": 2}).encode()
    metadata = {b"fencepost": text, b"fencepost-digest": native._digest(text, older)}
    table = pa.table({name: pa.array(values) for name, values in older.items()}).replace_schema_metadata(metadata)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    again = load_any(path)
    assert again.columns["key"].dtype == np.dtype("<u4")
    assert column(again, "key") == [1]
