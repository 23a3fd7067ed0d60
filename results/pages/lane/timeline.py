"""A whole lane on one zoomable time axis: operations and measures, with the faults as bands.

The figure (`templates/timeline.html`) holds what a script of ours needs to draw it (`templates/timeline*.js`): all
operations, packed, and the layout of the canvas. It has the same content as text, too.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from checkers.history.history import FaultInterval, History
from checkers.history.view import View
from checkers.row_format import F, Outcome
from results.pages import web
from results.pages.lane.lane_json import columns
from results.pages.lane.shown_operations import Focus
from results.pages.svg import legend_of_canvas, shape_of
from results.report import sentences
from results.text import duration, seconds

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
    c = history.columns
    faults = [fault for fault in history.faults if fault.begun]
    begin = min([int(c["inv"][0]), *(fault.begun for fault in faults)])
    end = max([begin + _SHORTEST, int(c["inv"][-1]), int(c["ret"].max()), *(fault.healed for fault in faults)])
    pad = (end - begin) // 100
    moments = sorted(moments)[:MOST_VIOLATIONS]
    lines = _lines(faults, end)
    places = _places(min(max(lines, default=-1) + 1, _MOST_LINES), max(history.facts.workers, 1))
    data = columns(view)
    about = _spelled({
        "codes": [_code(*code) for code in data["codes"]],
        "errors": data["errors"],
        "lane": history.facts.lane,
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
