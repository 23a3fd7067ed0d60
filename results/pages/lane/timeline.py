"""A whole lane on one zoomable time axis, operations and measures under the same fault bands.

The figure holds what a script of ours needs to draw it (`templates/timeline*.js`): all operations, packed, and where on
the canvas what stands. The canvas has its full height from the start. Beside it stands what it says as text.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from checkers.history.history import FaultInterval, History
from checkers.history.holds import HoldColumns
from checkers.wire import FINAL, LATE, NESTED, SHARED, F, Outcome, Reason
from results.pages import web
from results.pages.lane import glyphs
from results.pages.lane.columns import columns
from results.pages.lane.focus import Focus
from results.pages.shapes import SHAPES, shape_of
from results.pages.svg import join, tag
from results.report.sentences import KINDS
from results.text import duration, seconds

MOST_VIOLATIONS: Final = 5_000
"""Marked; the first of them. The text alternative lists fewer."""
_MOST_LISTED: Final = 100
_MOST_LINES: Final = 3
_SHORTEST: Final = 1000  # ns
_OUTCOMES: Final = ("ok", "refused", "unknown")

_OF_ITS_OWN: Final[dict[int, str]] = {
    F.ACQUIRE: "acquire",
    F.TRY_ACQUIRE: "acquire",
    F.EFFECT: "write",
    F.STALL: "stall",
}
"""What the canvas draws otherwise than the picture."""

_TAILS: Final = (
    (SHARED, ", beside other readers"),
    (NESTED, ", inside its own hold"),
    (LATE, ", sent late on purpose"),
    (FINAL, ", after everything else"),
)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where on the canvas what stands, in CSS pixels from its top."""

    lines: int
    workers: int

    @property
    def row(self) -> int:
        return 36 if self.workers <= 6 else 28 if self.workers <= 12 else 18

    def places(self) -> dict[str, Any]:
        """Plain JSON. Rows that do not fit are scrolled."""
        marks = 4 + 17 * self.lines
        rows = marks + 15
        shown = min(self.row * self.workers, 504)
        strips, top = [], rows + shown + 28
        for name, height in (("wait", 58), ("rate", 46), ("held", 26)):
            strips.append({"name": name, "top": top, "height": height})
            top += height + 28
        axis = top - 22
        return {
            "line": 17, "marks": marks, "rows": rows, "row": self.row, "shown": shown, "strips": strips,
            "axis": axis, "brush": axis + 32, "brushed": 34, "height": axis + 32 + 34 + 2,
        }  # fmt: skip


def draw(
    history: History, holds: HoldColumns, window: Focus, moments: Sequence[tuple[int, str]], origin: int, name: str
) -> Markup:
    """The figure.

    moments: (ns, words) of each violation. origin: ns that the axis calls 0. name: unique on its page. window: that of
    the picture above, which can be found again.
    """
    if not len(history):
        return tag("figure", tag("p", "Nothing was recorded.", class_="faint"), class_="timeline")
    c = history.columns
    faults = [fault for fault in history.faults if fault.begun]
    begin = min([int(c["inv"][0]), *(fault.begun for fault in faults)])
    end = max([begin + _SHORTEST, int(c["inv"][-1]), int(c["ret"].max()), *(fault.healed for fault in faults)])
    pad = (end - begin) // 100
    moments = sorted(moments)[:MOST_VIOLATIONS]
    lines = _lines(faults, end)
    places = _Layout(min(max(lines, default=-1) + 1, _MOST_LINES), max(history.facts.workers, 1)).places()
    data = columns(history, holds, origin)
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
    summary = (
        f"{history.facts.lane}: {len(history)} operations of {history.facts.workers} workers "
        f"in {duration(end - begin)}, {len(moments)} violations"
    )
    keys = (
        "Arrows left and right move, plus and minus zoom, 0 shows the whole, n and p go to the next and previous "
        "violation. Full stop and comma go from operation to operation, arrows up and down from worker to worker, "
        "Enter keeps what is told of one, Escape lets go."
    )
    return tag(
        "figure",
        _tools(len(moments)),
        tag(
            "div",
            tag("svg", width=1, height=places["height"], aria_hidden="true"),  # keeps the place, whatever scripts do
            tag("canvas", tabindex=0, role="application", aria_label=summary, aria_describedby=f"{name}-keys"),
            class_="timeline-plot",
        ),
        _legend(),
        tag("p", keys, class_="timeline-keys", id=f"{name}-keys"),
        _text(history, moments, origin),
        tag("script", web.packed(json.dumps(data | about, separators=(",", ":"))), type="application/octet-stream"),
        class_="timeline", id=f"{name}-timeline",
    )  # fmt: skip


def _spelled(data: Any) -> Any:
    if isinstance(data, str):
        return web.spelled(data)
    if isinstance(data, dict):
        return {key: _spelled(value) for key, value in data.items()}
    return [_spelled(item) for item in data] if isinstance(data, (list, tuple)) else data


def _code(f: int, outcome: int, reason: int, flags: int) -> tuple[str, int, str, str, str, str]:
    """Shape, 0 for ok, 1 for refused or 2 for unknown, and words: the kind, what is said where a value is missing, the
    result, what else is known.
    """
    valued = f in (F.WRITE, F.EFFECT) or (f == F.READ and outcome == Outcome.OK)
    tail = "".join(words for flag, words in _TAILS if flags & flag and (flag != SHARED or _shape(f) == "acquire"))
    nothing = " nothing" if valued else ""
    return _shape(f), _place(outcome), _kind(f), nothing, _result(outcome, reason), tail


def _shape(f: int) -> str:
    return _OF_ITS_OWN.get(f) or shape_of(f)


def _kind(f: int) -> str:
    return KINDS.get(f) or F(f).name.lower().replace("_", " ")


def _place(outcome: int) -> int:
    """In `_OUTCOMES`."""
    return {Outcome.OK: 0, Outcome.FAIL: 1}.get(Outcome(outcome), 2)


def _result(outcome: int, reason: int) -> str:
    if outcome == Outcome.OK:
        return "ok"
    if outcome != Outcome.FAIL:
        return "unknown"
    names = {int(known): known.name.lower().replace("_", " ") for known in Reason}
    return f"refused: {names.get(reason, f'reason {reason}')}" if reason else "failed"


def _lines(faults: Sequence[FaultInterval], end: int) -> list[int]:
    """For each fault the first line of names on which no other is under way."""
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


def _tools(violations: int) -> Markup:
    """Buttons, which work as soon as the script has drawn."""
    buttons = [
        ("in", "+", "zoom in"),
        ("out", "\N{MINUS SIGN}", "zoom out"),
        ("whole", "whole", "the whole lane"),
        ("moment", "moment above", "what the picture above shows"),
    ]
    if violations:
        buttons += [
            ("previous", "◀ violation", "to the previous violation"),
            ("next", "violation ▶", "to the next violation"),
        ]
    made = [
        tag("button", words, type="button", data_do=what, title=title, aria_label=title, disabled="")
        for what, words, title in buttons
    ]
    return tag("div", *made, tag("span", "\N{NO-BREAK SPACE}", class_="timeline-span"), class_="timeline-tools")


def _legend() -> Markup:
    """What the shapes mean; those of the picture above are the same."""
    hold = tag("path", d="M-13-6h26v12h-26z", class_="hold")
    items = [
        (tag("path", d="M-13 0h26", class_="waiting"), "waits"),
        (hold, "holds"),
        (glyphs.past(), "after its lease"),
        (tag("path", d=SHAPES["write"], class_="write"), "write"),
        (tag("path", d=SHAPES["read"], class_="read"), "read"),
        (tag("path", d=SHAPES["renew"], class_="renew"), "renewal"),
        (glyphs.refused(), "access refused"),
        (tag("path", d="M-3-3L3 3M-3 3L3-3", class_="axis"), "other refused, timed out"),
        (tag("text", "?", y=5, class_="question", text_anchor="middle"), "unknown"),
        (tag("path", d="M-6-6h12L0 5z", class_="violation"), "violation"),
    ]
    drawn = (
        tag("span", tag("svg", shape, viewBox="-15 -11 30 22", width=30, height=22, aria_hidden="true"), words)
        for shape, words in items
    )
    return tag("p", join(drawn), class_="legend")


def _text(history: History, moments: Sequence[tuple[int, str]], origin: int) -> Markup:
    """Counts of kinds and outcomes, and the violations, for those who do not see the canvas."""
    c = history.columns
    joined, counts = np.unique(c["f"].astype(np.int64) << 8 | c["outcome"], return_counts=True)
    table: dict[str, dict[str, int]] = {}
    for key, count in zip(joined, counts, strict=True):
        row = table.setdefault(_kind(key >> 8), dict.fromkeys(_OUTCOMES, 0))
        row[_OUTCOMES[_place(key & 255)]] += int(count)
    rows = [
        tag(
            "tr",
            tag("td", kind),
            *(tag("td", f"{row[outcome]:,}" if row[outcome] else "", class_="n") for outcome in row),
        )
        for kind, row in sorted(table.items(), key=lambda item: -sum(item[1].values()))
    ]
    parts = [
        tag("summary", "The same as text"),
        tag(
            "table",
            tag("thead", tag("tr", tag("th", "operation"), *(tag("th", outcome) for outcome in _OUTCOMES))),
            tag("tbody", *rows),
        ),
    ]
    if moments:
        listed = [tag("tr", tag("td", seconds(at, origin), class_="n"), tag("td", words)) for at, words in moments]
        more = len(listed) - _MOST_LISTED
        if more > 0:
            listed[_MOST_LISTED:] = [tag("tr", tag("td"), tag("td", f"and {more:,} more"))]
        parts.append(
            tag(
                "table",
                tag("thead", tag("tr", tag("th", "violation at"), tag("th", "what"))),
                tag("tbody", *listed),
            )
        )
    return tag("details", *parts, class_="timeline-text")
