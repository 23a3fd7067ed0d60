"""A whole lane on one zoomable time axis: operations and measures, with the faults as bands.

The figure (`templates/timeline.html`) holds what a script of ours needs to draw it (`templates/timeline*.js`): all
operations, packed, and the layout of the canvas. The figure has the same content as text, too.

The operations are JSON: each column has an entry for each row of the history, in the same order. Times are whole
microseconds. A column of differences has the difference to the last entry that is not null; if a number is too large
for an exact difference, the column has the numbers themselves, as texts.

code        index into `codes`: kind, outcome, reason and flags.
inv         since the invocation of the row before; in the first row since the origin.
lasted      from invocation to completion; -1: never completed.
process     process number.
key         index of the lock; the column is missing if there is only one lock.
token       differences; null: none.
value       differences; what was read or written, or the job that was done.
base        differences.
error       index into `errors`; 0: none.

The columns of `holds` have an entry for each grant: the row of its acquire, how long it was held, the time from the
grant to the earliest end of its lease (null: no lease), 1 if neither a release nor a notice of loss is known, and its
number (differences; `shown_operations.numbers`).
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from checkers.history.history import FaultInterval, History
from checkers.history.view import View
from checkers.row_format import INFINITY, NONE, F, Outcome
from results.pages import web
from results.pages.lane.shown_operations import Focus, numbers
from results.pages.svg import legend_of_canvas, shape_of
from results.report import sentences
from results.text import cut, duration, seconds

MOST_VIOLATIONS: Final = 5_000
"""The most violations that are marked: the first ones. The text lists fewer."""
_MOST_LISTED: Final = 100
_MOST_LINES: Final = 3
_SHORTEST: Final = 1000  # ns
_OUTCOMES: Final = ("ok", "refused", "unknown")

_CANVAS: Final[dict[int, str]] = {F.ACQUIRE: "acquire", F.TRY_ACQUIRE: "acquire", F.EFFECT: "write", F.STALL: "stall"}
"""Kinds of operations that the canvas draws in another way than the picture."""


def _places(lines: int, workers: int) -> dict[str, Any]:
    """The layout of the canvas in CSS pixels, as plain JSON. Rows that do not fit scroll. lines: of names of faults."""
    row = 36 if workers <= 6 else 28 if workers <= 12 else 18
    marks = 4 + 17 * lines
    rows = marks + 15
    shown = min(row * workers, 504)
    strips, top = [], rows + shown + 28
    for name, height in (("wait", 58), ("rate", 46), ("held", 26)):
        strips.append({"name": name, "top": top, "height": height})
        top += height + 28
    axis = top - 22
    return {
        "line": 17, "marks": marks, "rows": rows, "row": row, "shown": shown, "strips": strips,
        "axis": axis, "brush": axis + 32, "brushed": 34, "height": axis + 32 + 34 + 2,
    }  # fmt: skip


def draw(view: View, window: Focus, moments: Sequence[tuple[int, str]], name: str) -> Markup:
    """The figure. moments: (ns, words) of each violation. name: unique on the page. window: what a button shows."""
    history, origin = view.history, view.zero
    faults = [fault for fault in history.faults if fault.begun]
    begin = min([origin, *(fault.begun for fault in faults)])
    end = max([begin + _SHORTEST, view.finish, *(fault.healed for fault in faults)])
    pad = (end - begin) // 100
    moments = sorted(moments)[:MOST_VIOLATIONS]
    lines = _lines(faults, end)
    places = _places(min(max(lines, default=-1) + 1, _MOST_LINES), max(history.facts.workers, 1))
    data = columns(view)
    about = _spelled({
        "codes": [_code(*code) for code in data["codes"]],
        "errors": data["errors"],
        "lane": history.facts.lane,
        "origin": origin,
        "workers": max(history.facts.workers, 1),
        "keys": list(history.facts.keys) if len(history.facts.keys) > 1 else [],
        "whole": [begin - pad - origin, end + pad - origin],
        "window": [window.begin - origin, window.end - origin],
        "faults": [
            _fault(history, fault, min(line, _MOST_LINES - 1), origin)
            for fault, line in zip(faults, lines, strict=True)
        ],
        "violations": [[moment - origin, words] for moment, words in moments],
        "places": places,
    })  # fmt: skip
    return web.fragment(
        "timeline.html",
        name=name,
        summary=(
            f"{history.facts.lane}: {len(history)} operations of {history.facts.workers} workers "
            f"in {duration(end - begin)}, {len(moments)} violations"
        ),
        height=places["height"],
        legend=legend_of_canvas(),
        outcomes=_OUTCOMES,
        kinds=_kinds(history),
        violations=[(seconds(at, origin), words) for at, words in moments],
        most=_MOST_LISTED,
        data=web.packed(json.dumps(data | about, separators=(",", ":"))),
    )


def _spelled(data: Any) -> Any:
    if isinstance(data, str):
        return web.spelled(data)
    if isinstance(data, dict):
        return {key: _spelled(value) for key, value in data.items()}
    return [_spelled(item) for item in data] if isinstance(data, (list, tuple)) else data


def _code(f: int, outcome: int, reason: int, flags: int) -> tuple[str, int, str, str, str, str]:
    """Shape; 0 for ok, 1 refused, 2 unknown; and words: kind, text for a missing value, outcome, circumstances."""
    nothing = " nothing" if sentences.carries_value(f, outcome) else ""
    words = sentences.kind(f), nothing, sentences.answer(outcome, reason), sentences.circumstances(f, flags)
    return _CANVAS.get(f) or shape_of(f), _column(outcome), *words


def _column(outcome: int) -> int:
    """The index of an outcome in `_OUTCOMES`."""
    return {Outcome.OK: 0, Outcome.FAIL: 1}.get(Outcome(outcome), 2)


def _lines(faults: Sequence[FaultInterval], end: int) -> list[int]:
    """For each fault the first line on which no other fault is active."""
    until: list[int] = []
    lines: list[int] = []
    for fault in faults:
        line = next((n for n, busy in enumerate(until) if busy <= fault.begun), len(until))
        until[line : line + 1] = [fault.healed or end]
        lines.append(line)
    return lines


def _fault(history: History, fault: FaultInterval, line: int, origin: int) -> dict[str, Any]:
    moments = (fault.begun, fault.applied, fault.healing, fault.healed)
    return {
        "name": fault.name,
        "target": fault.target,
        "moments": [moment - origin if moment else None for moment in moments],
        "worker": history.facts.worker_of(fault.process) if fault.process >= 0 else -1,
        "line": line,
    }


def _kinds(history: History) -> list[tuple[str, list[int]]]:
    """(kind of operation, number of each of `_OUTCOMES`), the most frequent first."""
    c = history.columns
    joined, counts = np.unique(c["f"].astype(np.int64) << 8 | c["outcome"], return_counts=True)
    table: dict[str, list[int]] = {}
    for key, count in zip(joined, counts, strict=True):
        table.setdefault(sentences.kind(int(key) >> 8), [0] * len(_OUTCOMES))[_column(int(key) & 255)] += int(count)
    return sorted(table.items(), key=lambda item: -sum(item[1]))


TICK: Final = 1000
"""ns of a microsecond."""
MOST_ERRORS: Final = 400
"""The most distinct error texts. The rarer ones share one text."""
LONGEST_ERROR: Final = 400
_RARER: Final = "one of many texts; the history's file has it"
_EXACT: Final = 2**52  # a double holds the difference of two smaller numbers exactly


def columns(view: View) -> dict[str, Any]:
    history, holds, origin = view.history, view.holds.columns, view.zero
    c = history.columns
    inv, ret = (c["inv"] - origin) // TICK, (c["ret"] - origin) // TICK
    parts = np.stack([c[name] for name in ("f", "outcome", "reason", "flags")], axis=1)
    codes, code = np.unique(parts.view(np.uint32).ravel(), return_inverse=True)
    valued = np.isin(c["f"], (F.WRITE, F.EFFECT)) | ((c["f"] == F.READ) & (c["outcome"] == Outcome.OK))
    errors, error = _errors(history)
    grant = ret[holds.row]
    lease = ((holds.expiry - origin) // TICK - grant).tolist()
    return {
        "columns": {
            "code": code.tolist(),
            "inv": np.diff(inv, prepend=0).tolist(),
            "lasted": np.where(c["ret"] == 0, -1, np.maximum(ret - inv, 0)).tolist(),
            "process": c["process"].tolist(),
            **({"key": c["key"].tolist()} if len(history.facts.keys) > 1 else {}),
            "token": _differences(c["token"], c["token"] != NONE),
            "value": _differences(c["value"], valued & (c["value"] != NONE)),
            "base": _differences(c["base"], (c["f"] == F.WRITE) & (c["base"] != NONE)),
            "error": error,
        },
        "holds": {
            "row": holds.row.tolist(),
            "held": ((holds.left - origin) // TICK - grant).tolist(),
            "lease": [None if end == INFINITY else left for left, end in zip(lease, holds.expiry, strict=True)],
            "open": holds.open.astype(int).tolist(),
            "rank": np.diff(numbers(view), prepend=0).tolist(),
        },
        "codes": codes.view(np.uint8).reshape(-1, 4).tolist(),
        "errors": errors,
    }


def _differences(column: npt.NDArray[np.int64], present: npt.NDArray[np.bool_]) -> list[int | str | None]:
    entries = column[present]
    exact = ((entries > -_EXACT) & (entries < _EXACT)).all()
    whole = np.full(len(column), None, np.object_)
    whole[present] = np.diff(entries, prepend=0) if exact else [str(entry) for entry in entries]
    return whole.tolist()


def _errors(history: History) -> tuple[list[str], list[int]]:
    """The distinct texts, first the empty one, then by frequency; and the index of each operation's text."""
    texts = [cut(text, LONGEST_ERROR, "…") for text in history.errors]
    indexes = history.columns["error"].tolist()
    often = Counter(texts[index] for index in indexes if texts[index])
    known = ["", *(text for text, _ in often.most_common(MOST_ERRORS))]
    if len(often) > MOST_ERRORS:
        known.append(_RARER)
    places = {text: place for place, text in enumerate(known)}
    return known, [places.get(texts[index], len(known) - 1) for index in indexes]
