"""Shows a comparison, what is worse first: as one sentence, in the terminal, as Markdown, as JSON, and as a page."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from markupsafe import Markup
from rich.console import Console
from rich.table import Table

from results.comparison.compare import NOT_COMPARABLE, WORSE, CellChange, Comparison, Seen
from results.comparison.speeds import ALPHA, RATIO, Speed
from results.pages import web
from results.pages.svg import tag
from results.record import grouped
from results.report import sentences
from results.report.markdown import render as render_markdown
from results.report.verdict_changes import Kind
from results.storage.reading import RunContents
from results.storage.run_folder import CLOSED, RunFolder
from results.terminal.output import Printer
from results.text import count, typed

FORMAT: Final = 1
"""The format of the JSON object."""
_MOST: Final = 40  # the most changes that are shown
HEADS: Final = ("what became", "backend", "lock", "measure", "A", "B", "ratio, 95 %", "machine", "p", "trials")
"""The columns of the table of times and rates."""

_WIDTH: Final = 130
_HEIGHT: Final = 20
_MOST_LISTED: Final = 1000  # the most cells that are listed without being notable. The JSON has all
_SPAN: Final = math.log(8)
"""Ratios from an eighth to eight are drawn where they belong, others at the ends of the scale."""

_AB: Final = {"before": "a", "after": "b"}
_COLOURS: Final = {"worse": "bold red", "better": "green"}  # what became of a time or rate that is notable → its style

_ODD_MACHINE: Final = 1.5  # if the machine was so many times slower or quicker, a remark says so


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs. versions: (backend, version), perhaps several of a backend. state: see `RunFolder.state`."""

    name: str
    path: Path
    contents: RunContents
    versions: tuple[tuple[str, str], ...]
    state: str

    @classmethod
    def of(cls, run: RunFolder) -> Self:
        """Read a run. Raises BadFile."""
        contents = run.read()
        versions = sorted({(cell.backend, cell.version) for cell in contents.cells if cell.version})
        return cls(run.path.resolve().name, run.path, contents, tuple(versions), run.state())


def headline(comparison: Comparison) -> str:
    """One sentence. If B is worse, with the first reason."""
    lost = sum(bool(change.lost) for change in comparison.changes)
    cleared = sum(change.kind is Kind.CLEARED for change in comparison.changes)
    if comparison.status == WORSE:
        worse = [change for change in comparison.changes if change.worse]
        slow = [speed for speed in comparison.speeds if speed.word == "worse"]
        first = _slow(slow[0]) if slow else ""
        if worse and (seen := worse[0].after):
            first = sentences.sentence(worse[0].lock, [worse[0].property], seen.word, worse[0].fault, seen.because)
        return f"B is worse than A: {_both(len(worse), len(slow))}. {first}"
    if not comparison.common and not comparison.timed:
        return "A and B cannot be compared: they have no judged cell in common."
    if comparison.status == NOT_COMPARABLE:
        judged = sum(change.before is not None for change in comparison.changes)
        return (
            f"B is not worse than A as far as can be told, but {lost} of A's {count(judged, 'verdict')} "
            "could not be compared: B's evidence is missing."
        )
    looked = count(comparison.common, "common verdict") + " and in times and rates" * comparison.timed
    better = _both(cleared, sum(speed.word == "better" for speed in comparison.speeds))
    return f"B is better than A: {better}, of {looked}." if better else f"B is no worse than A in {looked}."


def _both(verdicts: int, speeds: int) -> str:
    """The numbers of both in words, or empty."""
    parts = [count(verdicts, "verdict")] if verdicts else []
    return " and ".join([*parts, *([count(speeds, "time or rate", "times or rates")] if speeds else [])])


def overall(comparison: Comparison) -> list[Speed]:
    """The times and rates of each backend as a whole, or of its only lock."""
    whole = {speed.backend for speed in comparison.speeds if not speed.lock}
    return [speed for speed in comparison.speeds if not speed.lock or speed.backend not in whole]


def remarks(comparison: Comparison, before: Side, after: Side) -> list[str]:
    """Sentences with what else must be known beside the headline."""
    lines = []
    if not comparison.timed:
        lines.append("Times and rates were not judged: there are too few trials in common, or they were not measured.")
    for backend, machine in sorted({speed.backend: speed.machine for speed in overall(comparison)}.items()):
        if not 1 / _ODD_MACHINE < machine < _ODD_MACHINE:
            how = f"{machine:.1f} times slower" if machine > 1 else f"{1 / machine:.1f} times quicker"
            lines.append(f"During B's trials of {backend} the machine was {how}, which is allowed for.")
    for letter, side in (("A", before), ("B", after)):
        if side.state != CLOSED:
            lines.append(f"{letter} is {side.state}: what both have is compared.")
        if side.contents.problems:
            left = count(len(side.contents.problems), "trial")
            lines.append(f"{letter} lacks {left} (aborted or damaged); what both have is compared.")
    for kind, letter in ((Kind.ONLY_IN_A, "A"), (Kind.ONLY_IN_B, "B")):
        if number := sum(change.kind is kind for change in comparison.changes):
            lines.append(f"{count(number, 'verdict')} {'is' if number == 1 else 'are'} in {letter} only.")
    return lines


def counts(comparison: Comparison) -> dict[str, int]:
    return {str(kind): sum(change.kind is kind for change in comparison.changes) for kind in Kind}


def notable(change: CellChange) -> bool:
    """Whether a change is shown by itself: it is worse or lost, or its verdict changed and fails in one run or both."""
    both = [seen.word for seen in (change.before, change.after) if seen is not None]
    differs = len(both) == 2 and both[0] is not both[1]
    return bool(change.worse or change.lost) or (differs and any(word.fails for word in both))


def turns(comparison: Comparison) -> list[tuple[str, str, int]]:
    """(verdict in A, verdict in B, how many) of all other changes: they concern no promise."""
    pairs = Counter(
        (str(change.before.word), str(change.after.word))
        for change in comparison.changes
        if change.before and change.after and change.kind is not Kind.SAME and not notable(change)
    )
    return [(*words, number) for words, number in pairs.most_common()]


def why(change: CellChange) -> str:
    return f"worse: {change.worse}" if change.worse else f"lost: {change.lost}" if change.lost else str(change.kind)


def seen(side: Seen | None) -> str:
    """A verdict, and in how many of the trials."""
    if side is None:
        return "-"
    return f"{side.word}" + (f" in {side.times} of {side.trials}" if side.trials > 1 else "")


def cells(speed: Speed) -> tuple[str, ...]:
    """The row of a time or rate, with the columns of `HEADS`."""
    unit = f" {speed.unit}" if speed.unit.isalpha() else speed.unit
    bounds = f" [{speed.interval[0]:.2f}, {speed.interval[1]:.2f}]" if speed.interval else ""
    p = speed.p_better if speed.word == "better" else speed.p
    return (
        speed.word, speed.backend, speed.lock or "all locks", speed.measure,
        f"{_number(speed.before)}{unit}", f"{_number(speed.after)}{unit}", f"{speed.ratio:.2f}{bounds}",
        f"{speed.machine:.2f}", "" if p is None else f"{p:.2g}", str(speed.trials),
    )  # fmt: skip


def to_json(comparison: Comparison, before: Side, after: Side) -> str:
    """One object.

    {format, status, headline, remarks: [text],
    a and b: {run, path, state, versions: {backend: [version]}, problems: [text]},
    verdicts: {kind: count}, changes: [{backend, lock, lane, fault, property, kind, worse, lost (texts, empty for no),
    a and b: {word, times, trials, because, story, page} or null}] without those that are the same, worse first,
    rule: {ratio, alpha}, speeds: [{backend, lock ("": all of the backend), measure, unit, a, b, ratio, interval: [low,
    high] or null, machine, trials, p, p_better (null: too few trials), word: worse, better, same, unsure or too few}]}
    """
    return json.dumps(
        {
            "format": FORMAT,
            "status": comparison.status,
            "headline": headline(comparison),
            "remarks": remarks(comparison, before, after),
            "a": _side(before),
            "b": _side(after),
            "verdicts": counts(comparison),
            "changes": [_ab(change) for change in comparison.changes if change.kind is not Kind.SAME],
            "rule": {"ratio": RATIO, "alpha": ALPHA},
            "speeds": [_ab(speed) for speed in comparison.speeds],
        },
        indent=1,
    )


def markdown(comparison: Comparison, before: Side, after: Side) -> str:
    """Markdown for the summary of a CI job: notable changes, and the others in numbers."""
    return render_markdown(
        "comparison.md",
        headline=headline(comparison),
        before=before,
        after=after,
        remarks=remarks(comparison, before, after),
        most=_MOST,
        changes=[change for change in comparison.changes if notable(change)],
        why=why,
        seen=seen,
        turns=turns(comparison),
        heads=HEADS,
        speeds=[speed for speed in comparison.speeds if speed.word in _COLOURS],
        cells=cells,
        same=sum(change.kind is Kind.SAME for change in comparison.changes),
        looked=len(comparison.speeds),
    )


def render(comparison: Comparison, before: Side, after: Side, console: Console, *, everything: bool = False) -> None:
    """Print to the terminal. everything: also what is the same."""
    printer = Printer(console)
    style = "bold red" if comparison.status == WORSE else "yellow" if comparison.status == NOT_COMPARABLE else "green"
    for letter, side in (("A", before), ("B", after)):
        versions = ", ".join(" ".join(pair) for pair in side.versions)
        printer.line(f"{letter}: {side.name}" + (f"  ({versions})" if versions else ""))
    printer.line(headline(comparison), style)
    for remark in remarks(comparison, before, after):
        printer.line(remark, indent=2)
    shown_changes = [change for change in comparison.changes if everything or notable(change)]
    for change in shown_changes if everything else shown_changes[:_MOST]:
        _render_change(change, printer)
    if not everything:
        if len(shown_changes) > _MOST:
            printer.line(f"and {len(shown_changes) - _MOST} more like these (--all)")
        if turned := turns(comparison):
            printer.gap()
        for old, new, number in turned:
            printer.line(f"changed: {count(number, 'verdict')}, {old} -> {new}")
    shown = overall(comparison)
    speeds = [speed for speed in comparison.speeds if everything or speed.word in _COLOURS or speed in shown]
    if speeds:
        printer.gap()
        _render_speeds(speeds, printer)


def _render_change(change: CellChange, printer: Printer) -> None:
    style = "bold red" if change.worse else "yellow" if change.lost else "green" if change.kind is Kind.CLEARED else ""
    printer.gap()
    printer.line(f"{why(change)}  {change.lane}  {change.property}  {change.fault}", style)
    printer.line(f"{seen(change.before)} -> {seen(change.after)}", indent=2)
    if change.after is not None and change.worse:
        for number, line in enumerate(change.after.story, 1):
            printer.line(f"{number}. {line}", indent=4)
    for letter, side in (("A", change.before), ("B", change.after)):
        if side is not None and side.page is not None and change.kind is not Kind.SAME:
            printer.whole(f"{letter}: {typed(side.page)}", indent=2)


def _render_speeds(speeds: Sequence[Speed], printer: Printer) -> None:
    if printer.console.width < 100:
        for speed in speeds:
            printer.line("  ".join(part for part in cells(speed) if part), _COLOURS.get(speed.word, ""))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, highlight=False)
    for place, head in enumerate(HEADS):
        table.add_column(head, justify="left" if place < 4 or place == 6 else "right")
    for speed in speeds:
        table.add_row(*(printer.text(part, _COLOURS.get(speed.word, "")) for part in cells(speed)))
    printer.console.print(table)


def _slow(speed: Speed) -> str:
    what = f"{speed.measure} of {speed.lock or f'all locks on {speed.backend}'}"
    numbers = f"{_number(speed.before)} to {_number(speed.after)} {speed.unit}, {speed.ratio:.2f} times"
    return f"{what[0].upper()}{what[1:]}: {numbers}."


def _number(value: float) -> str:
    """A number with three digits, or more before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _side(side: Side) -> dict[str, Any]:
    backends = grouped(side.versions, lambda pair: pair[0])
    versions = {backend: [version for _, version in pairs] for backend, pairs in backends.items()}
    return {
        "run": side.name, "path": str(side.path), "state": side.state, "versions": versions,
        "problems": list(side.contents.problems),
    }  # fmt: skip


def _ab(made: CellChange | Speed) -> dict[str, Any]:
    """Plain JSON, with the two runs as `a` and `b`."""
    fields: dict[str, Any] = msgspec.to_builtins(made, enc_hook=str)
    return {_AB.get(name, name): value for name, value in fields.items()}


def page(comparison: Comparison, before: Side, after: Side, path: Path) -> str:
    """The page as HTML. path: where it will stand; links to the trials' pages are relative to it."""
    changed = [change for change in comparison.changes if change.kind is not Kind.SAME]
    shown = [change for change in changed if notable(change)]
    others = [change for change in changed if not notable(change)]
    folder = path.resolve().parent
    sides = (("A", before), ("B", after))
    return web.render(
        "compare.html",
        title=f"{before.name} and {after.name} - fencepost",
        headline=headline(comparison),
        remarks=remarks(comparison, before, after),
        sides=[(letter, side, web.relative(side.path / "index.html", folder)) for letter, side in sides],
        problems=[(letter, side.contents.problems) for letter, side in sides if side.contents.problems],
        counts=[(kind, number) for kind, number in counts(comparison).items() if number],
        why=why,
        link=lambda seen: web.relative(seen.page, folder),
        changes=shown,
        others=others[:_MOST_LISTED],
        more=max(len(others) - _MOST_LISTED, 0),
        heads=HEADS,
        speeds=[(speed.word, cells(speed), _interval(speed)) for speed in comparison.speeds],
        ratio=RATIO,
        alpha=ALPHA,
    )


def _interval(speed: Speed) -> Markup:
    """The ratio and its interval on a logarithmic scale. Lines mark the ratio 1 and the threshold on both sides."""

    def x(ratio: float) -> float:
        return _WIDTH / 2 * (1 + min(max(math.log(ratio) / _SPAN, -1.0), 1.0))

    middle = _HEIGHT / 2
    parts = [tag("path", d=f"M{x(1):.1f} 0v{_HEIGHT}", class_="axis")]
    parts += [tag("path", d=f"M{x(edge):.1f} 0v{_HEIGHT}", class_="grid") for edge in (RATIO, 1 / RATIO)]
    if speed.interval is not None:
        low, high = (x(bound) for bound in speed.interval)
        parts.append(tag("path", d=f"M{low:.1f} {middle}H{high:.1f}M{low:.1f} 6v8M{high:.1f} 6v8", class_="whisker"))
    parts.append(tag("circle", cx=x(speed.ratio), cy=middle, r=4, class_="release"))
    bounds = f", 95 %: {speed.interval[0]:.2f} to {speed.interval[1]:.2f}" if speed.interval else ""
    words = f"{speed.ratio:.2f} times{bounds}"
    return tag(
        "svg", tag("title", words), *parts, width=_WIDTH, height=_HEIGHT, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img",
        aria_label=words,
    )  # fmt: skip
