"""Prints a run in the terminal: its result in one sentence, and then a brief report, or the matrix and all below it.

The matrix has faults down and locks across. Colours only repeat the words. A narrow terminal gets a table for each
backend, or a list for each fault.
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from checkers.claims import NO_FAULT, Verdict
from checkers.properties.story_sentences import listing
from results.record import Cell, grouped, versions
from results.report import grid, sentences
from results.report.descriptions import explained, fault_name
from results.terminal.output import Printer
from results.text import cut, few, typed

_NARROWEST: Final = 12
"""The fewest characters of a lock's column in a table. The longest word of a verdict (`applicable`) has ten."""
_WIDEST: Final = 26
_LONGEST_NAME: Final = 24
_BROKEN_NAMES: Final = 14
"""Characters for the names of faults, also where there is little room; they break at their hyphens."""
_DOCUMENTED: Final = 12
"""The most lines for what broke as documented. If there would be more, each mechanism has one line."""
_FEW: Final = 5  # the most names that are shown of a list that may be long
_FIRST: Final = 3  # how many failures, and how many trials that are left out, `brief` names
_SMALL: Final = 8  # the most lines of a matrix that `brief` prints
_SHORT: Final = 100  # the most characters of the reason why a trial is left out, in `brief`
_LONGEST: Final = 400
"""The most characters of the reason why a trial is left out, in `render`; the trial's page has the whole reason."""


def brief(
    cells: Iterable[Cell], console: Console, problems: Sequence[str] = (), again: Callable[[Cell], str] = lambda _: ""
) -> None:
    """Print a run's result in some twenty lines: the sentence, the counts, the first failures with their pages and
    the commands `again`, and the matrix if it is small, else a line for each backend.
    """
    cells = list(cells)
    printer = Printer(console)
    _verdict(cells, problems, printer)
    printer.line(", ".join(f"{number:,} {word}" for word, number in grid.counts(cells)), "dim", hanging=2)
    failing = grid.failures(cells)
    for case in failing[:_FIRST]:
        printer.whole(sentences.cell_sentence(case.first), indent=2)
        page = f"page: {typed(case.first.page)}" if case.first.page else ""
        command = again(case.first)
        for line in filter(None, (page, command and f"again: {command}")):
            printer.whole(line, indent=4)
    if len(failing) > _FIRST:
        printer.line(f"and {len(failing) - _FIRST:,} more", indent=2)
    for problem in problems[:_FIRST]:
        printer.whole(f"left out: {cut(problem, _SHORT)}")
    made, backends = grid.grid(cells), {cell.lock: cell.backend for cell in cells}
    if not made.locks:
        return
    printer.gap()
    with console.capture() as table:
        _squares(made, backends, printer)
    if table.get().count("\n") <= _SMALL:
        _squares(made, backends, printer)
        return
    names = versions(cells)
    for backend, mine in sorted(grouped(cells, lambda cell: cell.backend).items()):
        applies = any(cell.word is not Verdict.NOT_APPLICABLE for cell in mine)
        came_to = _came_to(mine) if applies else "nothing of this run applies to it"
        printer.line(f"{backend} {names.get(backend, '')}".strip() + f": {came_to}", hanging=2)


def _came_to(cells: Sequence[Cell], left_out: int = 0) -> str:
    """`run_sentence`, but without PASSED or FAILED if versions are compared: then the certificate decides."""
    sentence = sentences.run_sentence(cells, left_out)
    compares = any(cell.stage for cell in cells)
    return "in all trials, of every version: " + sentence.partition(": ")[2] if compares else sentence


def _verdict(cells: Sequence[Cell], problems: Sequence[str], printer: Printer) -> None:
    sentence = _came_to(cells, len(problems))
    colours = {sentences.PASSED: "bold green", sentences.FAILED: "bold red", sentences.NOT_CLEAN: "bold red"}
    printer.line(sentence, colours.get(sentence.partition(":")[0], "bold"))


def render(
    cells: Iterable[Cell], console: Console, problems: Sequence[str] = (), again: Callable[[Cell], str] = lambda _: ""
) -> None:
    """Print what a run came to, the matrix, the meaning of its words, the failures, of which the first have the
    commands `again`, and the weaknesses.
    """
    cells = list(cells)
    printer = Printer(console)
    made = grid.grid(cells)
    _verdict(cells, problems, printer)
    if made.locks:
        printer.gap()
        _squares(made, {cell.lock: cell.backend for cell in cells}, printer)
        printer.gap()
        _legend(cells, printer)
    _failures(grid.failures(cells), printer, again)
    _documented(grid.documented(cells), printer)
    _reasons(grid.not_run(cells), printer)
    for problem in problems:
        printer.gap()
        printer.line(f"left out: {textwrap.shorten(problem, _LONGEST, placeholder=' ...')}", "red")
    printer.gap()


# The table


def _squares(made: grid.Grid, backends: Mapping[str, str], printer: Printer) -> None:
    """One table if it fits, else a table for each backend if those fit, else lists."""
    names = grid.short_names(made.locks)
    if _widths(made.locks, made.faults, printer):
        _table(made, made.locks, names, printer)
        return
    groups = grouped(made.locks, lambda lock: backends[lock])
    if not all(_widths(group, made.faults, printer) for group in groups.values()):
        _list(made, names, printer)
        return
    for number, (backend, group) in enumerate(sorted(groups.items())):
        if number:
            printer.gap()
        printer.line(f"on {backend}", "bold")
        _table(made, group, names, printer)


def _widths(locks: Sequence[str], faults: Sequence[str], printer: Printer) -> tuple[int, int] | None:
    """Characters for the names of faults, and for each lock; None if a table does not fit."""
    whole = min(max(len(name) for name in ("fault", *faults)), _LONGEST_NAME)
    for names in (whole, min(whole, _BROKEN_NAMES)):
        across = (printer.console.width - names) // len(locks) - 2  # two spaces between columns
        if across >= _NARROWEST:
            return names, min(across, _WIDEST)
    return None


def _table(made: grid.Grid, locks: Sequence[str], titles: Mapping[str, str], printer: Printer) -> None:
    faults = [fault for fault in made.faults if any((fault, lock) in made.squares for lock in locks)]
    widths = _widths(locks, faults, printer)
    assert widths is not None
    names, width = widths
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, highlight=False)
    table.add_column("fault", width=names)
    for lock in locks:
        table.add_column(Text("\n".join(_broken(printer.clean(titles[lock]), width))), width=width)
    table.add_row("-" * names, *["-" * width] * len(locks))
    for fault in faults:
        row = [_entry(made.squares.get((fault, lock)), width, printer) for lock in locks]
        table.add_row(Text("\n".join(_broken(printer.clean(fault), names)), "bold"), *row)
    printer.console.print(table)


def _entry(square: grid.Square | None, width: int, printer: Printer) -> Text:
    """The heaviest word with the number of its judgements, their properties where these matter, and what was upheld."""
    if square is None:
        return Text("")
    number = "" if square.word is Verdict.NOT_APPLICABLE else f" {len(square.first)}"
    lines = [Text(line, grid.SIGNS[square.word].style) for line in textwrap.wrap(f"{square.word}{number}", width)]
    if _shows_properties(square):
        for name in square.properties:
            lines += [Text(line) for line in _broken(printer.clean(name), width)]
    upheld = dict(square.counts).get(Verdict.UPHELD, 0)
    if upheld and square.word is not Verdict.UPHELD:
        lines.append(Text(f"{Verdict.UPHELD} {upheld}", "dim"))
    return Text("\n").join(lines)


def _shows_properties(square: grid.Square) -> bool:
    return square.word.fails or square.word is Verdict.WEAKNESS_SHOWN


def _broken(name: str, width: int) -> list[str]:
    """The lines of a name that is broken at its hyphens."""
    return textwrap.wrap(name, width, break_on_hyphens=True) or [""]


def _list(made: grid.Grid, titles: Mapping[str, str], printer: Printer) -> None:
    """Print for each fault its words, heaviest first, each with the locks whose heaviest word it is."""
    for fault in made.faults:
        printer.line(fault, "bold")
        groups: dict[tuple[Verdict, tuple[str, ...]], list[str]] = {}
        for lock in made.locks:
            if square := made.squares.get((fault, lock)):
                properties = square.properties if _shows_properties(square) else ()
                groups.setdefault((square.word, properties), []).append(titles[lock])
        for (word, properties), locks in sorted(groups.items(), key=lambda item: item[0][0].weight):
            about = f" ({', '.join(properties)})" if properties else ""
            printer.line(f"{word}{about}: {', '.join(locks)}", grid.SIGNS[word].style, indent=2, hanging=2)


def _legend(cells: list[Cell], printer: Printer) -> None:
    """The words that occur. Numbers count judgements; a judgement is of one property in one lane."""
    occurring = grid.counts(cells)
    widest = max(len(word) for word, _ in occurring)
    for word, count in occurring:
        line = Text(f"{count:>6}  ")
        line.append(f"{word:<{widest}}", grid.SIGNS[word].style)
        if printer.console.width >= 72:
            line.append(f"  {grid.SIGNS[word].meaning}", "dim")
        printer.console.print(line, soft_wrap=True)


# Below the table


def _failures(cases: list[grid.CellGroup], printer: Printer, again: Callable[[Cell], str]) -> None:
    """Print the first story of each lock, property and fault, and how many lanes and trials it concerns."""
    by_what = grouped(cases, lambda case: (case.first.word, case.first.lock, case.first.fault, case.first.property))
    for place, mine in enumerate(by_what.values()):
        cell, lanes = mine[0].first, sum(case.lanes for case in mine)
        printer.gap()
        where = (cell.lane or cell.lock) + (f" and {lanes - 1} more" if lanes > 1 else "")
        style = grid.SIGNS[cell.word].style
        printer.line(f"{cell.word}: {cell.property} in {where} under {cell.fault}", style, hanging=2)
        printer.line(sentences.cell_sentence(cell), indent=2)
        for number, line in enumerate(cell.story, 1):
            printer.line(f"{number}. {line}", indent=4, hanging=3)
        trials = max(len({case.first.trial for case in mine}), *(case.trials for case in mine))
        more = f", the first of {trials} trials" if trials > 1 else ""
        if cell.page is not None:
            printer.whole(f"seed {cell.seed}{more}: {typed(cell.page)}", indent=2)
        if place < _FIRST and (command := again(cell)):
            printer.whole(f"again: {command}", indent=2)


def _documented(cases: list[grid.CellGroup], printer: Printer) -> None:
    """A line for each lock: what broke, and by which mechanism. If there are too many, only the mechanisms."""
    by_reason = grouped((case.first for case in cases), lambda cell: (cell.lock, cell.fault, cell.because))
    lines: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (lock, fault, because), mine in by_reason.items():
        names = tuple(dict.fromkeys(cell.property for cell in mine))
        lines.setdefault((lock, because, names), []).append(fault)
    if lines:
        printer.gap()
    if len(lines) > _DOCUMENTED:
        _mechanisms(cases, printer)
        return
    for (lock, because, names), faults in lines.items():
        under = faults[0] if len(faults) == 1 else _in_words(faults)  # `sentence` has its own words for `none`
        sentence = sentences.sentence(lock, names, Verdict.WEAKNESS_SHOWN, under, explained(because))
        printer.line(f"{Verdict.WEAKNESS_SHOWN}: {sentence}")


def _mechanisms(cases: list[grid.CellGroup], printer: Printer) -> None:
    for because, cells in grouped((case.first for case in cases), lambda cell: grid.reason(cell.because)).items():
        locks, faults = (list(dict.fromkeys(names)) for names in zip(*((c.lock, c.fault) for c in cells), strict=True))
        places = f"{listing(few(grid.short_names(locks).values(), _FEW))} under {_in_words(few(faults, _FEW))}"
        printer.line(f"{Verdict.WEAKNESS_SHOWN}, {explained(because)}: {places}", hanging=2)


def _in_words(faults: Sequence[str]) -> str:
    in_order = sorted(faults, key=lambda name: name != NO_FAULT)
    return listing([fault_name(name) for name in in_order])


def _reasons(cells: list[Cell], printer: Printer) -> None:
    if cells:
        printer.gap()
    for because, mine in grouped(cells, lambda cell: cell.because).items():
        printer.line(f"{Verdict.NOT_APPLICABLE}: {_places(mine)}: {because}", "dim", hanging=2)


def _places(cells: list[Cell]) -> str:
    """The lane or locks, the properties and the faults of some cells."""
    lanes = {cell.lane or cell.lock or cell.backend: cell.lock or cell.backend for cell in cells}
    names = list(lanes) if len(lanes) == 1 else list(dict.fromkeys(lanes.values()))
    what = " ".join(filter(None, (listing(few(names, _FEW)), *{cell.property: None for cell in cells})))
    faults = list(dict.fromkeys(cell.fault for cell in cells if cell.fault))
    return f"{what} under {_in_words(few(faults, _FEW))}" if faults else what
