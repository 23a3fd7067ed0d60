"""Written histories are read as they were meant. Damaged files are refused in one line, or are still histories."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from checkers.formats.formats import parse
from checkers.history.history import BadHistory, malformed
from checkers.row_format import F, Outcome
from checkers.tests import files
from checkers.tests.build import Disagreement

KINDS: Final = {
    "read": F.READ, "write": F.WRITE, "cas": F.CAS, "acquire": F.ACQUIRE, "try-acquire": F.TRY_ACQUIRE,
    "release": F.RELEASE, "txn": F.TRANSACT,
}  # fmt: skip
WRITERS: Final[Mapping[str, Callable[[Iterable[files.Event]], str]]] = {
    "jsonl": files.jsonl,
    "edn": files.edn,
    "text": files.text,
    "log": lambda events: "".join(f"INFO  jepsen.util - {line}\n" for line in files.text(events).split("\n")[:-1]),
}
_PATH: Final = Path("history")
_VALUES: Final[tuple[Any, ...]] = (None, 0, 7, -3, "a", "", [1, 2], [], [None, ["b"]], 10**20)
LETTERS: Final = "ab0 \"'\\:;#{}[],\t\n\r\x00\x1b\x85\u00e9\u2028\U0001f600"


def _value(rng: Random) -> Any:
    """A value. No text begins as EDN's keywords and tags do, since the reader would spell out such a text."""
    text = rng.choice("a0 {[;,\u00e9") + "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 2)))
    return rng.choice((*_VALUES, text, [text]))


def some_events(rng: Random, *, timed: bool) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    pending: dict[int, dict[str, Any]] = {}
    for time in range(1, rng.randint(2, 24)):
        process = rng.randrange(3)
        if process in pending:
            one = {**pending.pop(process), "type": rng.choice(("ok", "fail", "info"))}
            if one["f"] == "read" and one["type"] == "ok":
                one["value"] = _value(rng)
            elif rng.random() < 0.3:  # these fields stand before the rest
                one = {"error": rng.choice(("late", ["x", "y, :f 3"])), "note": time, **one}
        else:
            f = rng.choice(list(KINDS))
            given = {"write": _value(rng), "cas": [_value(rng), 2], "txn": [["w", "x", 1]]}
            one = files.event(process, "invoke", f, given.get(f))
            if f == "acquire" and rng.random() < 0.5:
                one["token"] = time
            pending[process] = one
        told.append({**one, "time": time} if timed else one)
    return told


def written(rng: Random, name: str) -> str:
    """What is read back is what was written."""
    timed = name == "jsonl" and rng.random() < 0.5
    told = some_events(rng, timed=timed)
    lines = WRITERS[name](rng.sample(told, len(told)) if timed else told)
    history = parse(_PATH, lines.encode()).history
    places = {id(one): place for place, one in enumerate(told, 1)}
    ends: dict[int, dict[str, Any]] = {}
    pending: dict[int, dict[str, Any]] = {}
    for one in told:
        if one["type"] == "invoke":
            pending[one["process"]] = one
        else:
            ends[id(pending[one["process"]])] = one
    columns = ("f", "inv", "ret", "process", "outcome", "error", "value", "base")
    rows = zip(*(history.columns[column].tolist() for column in columns), strict=True)
    invoked = [one for one in told if one["type"] == "invoke"]
    for one, (f, inv, ret, process, outcome, error, value, base) in zip(invoked, rows, strict=True):
        end = ends.get(id(one), {})
        expected: tuple[Any, Any] = ("-", "-")
        if one["f"] in ("write", "txn"):
            expected = (one["value"], "-")
        elif one["f"] == "cas":
            expected = (one["value"][1], one["value"][0])
        elif one["f"] == "read" and end.get("type") == "ok":
            expected = (end["value"], "-")
        found = tuple("-" if place < 0 else history.values[place] for place in (value, base))
        said = (F(f), Outcome(outcome).name.lower(), inv, ret, process, history.errors[error] == "late")
        if found != tuple(map(_hashable, expected)) or said != (
            KINDS[one["f"]], end.get("type", "info"), places[id(one)], places.get(id(end), 0), one["process"],
            end.get("error") == "late",
        ):  # fmt: skip
            raise Disagreement(f"{one} became {(*said, found)}:\n{lines}")
    return name


def damaged(rng: Random) -> str:
    """Whatever happens to a good file, it is refused in one line or is still a history."""
    data = mutated(rng, WRITERS[rng.choice(list(WRITERS))](some_events(rng, timed=rng.random() < 0.5)).encode())
    try:
        history = parse(_PATH, data).history
    except BadHistory as error:
        if not str(error).isprintable() or len(str(error)) > 1000:
            raise Disagreement(f"not one short line: {error}") from error
        return "refused"
    if malformed(history) not in (None, "two grants share one owner"):
        raise Disagreement(f"{malformed(history)}:\n{data!r}")
    hash(history.values)
    return "a history"


def mutated(rng: Random, data: bytes) -> bytes:
    """A few bytes flipped, changed, cut out, doubled or put in, or the end cut off."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        kind = rng.randrange(6)
        at = rng.randrange(len(changed)) if changed else 0
        if kind == 0 and changed:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and changed:
            changed[at] = rng.randrange(256)
        elif kind == 2:
            del changed[at:]
        elif kind == 3:
            del changed[at : at + rng.randint(1, 20)]
        elif kind == 4:
            changed[at:at] = changed[at : at + rng.randint(1, 60)]
        else:
            changed[at:at] = rng.choice(
                (b"[", b"]", b"{", b"}", b'"', b"\\", b"\n", b"#_", b";", b"\t", b"-", b"9" * 30)
            )
    return bytes(changed)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


CHECKS: Final[Mapping[str, Callable[[Random], str]]] = {
    **{f"format-{name}": partial(written, name=name) for name in WRITERS},
    "format-damaged": damaged,
}
