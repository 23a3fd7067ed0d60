"""`python -m results digest RUN [--against PREVIOUS]`: a run in a page of Markdown, for the summary of a CI job; and
`compare A B`: what became better or worse from run A to run B.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from checkers.claims import NO_FAULT, Verdict
from results.commands.find import find
from results.comparison import presentation
from results.comparison.compare import News, apart, compare, news
from results.comparison.presentation import Side
from results.pages.trial_page import command_of
from results.record import Cell, grouped, judged
from results.report.grid import SIGNS, counts, grid
from results.report.markdown import macros
from results.report.sentences import run_sentence
from results.storage import files, summary
from results.storage.reading import RunContents
from results.terminal.output import Output
from results.text import count, typed

MOST_BYTES: Final = 1 << 20
"""The most bytes of a job's summary on GitHub."""
_CUT: Final = "\n_Too long for the summary of a job: {} of its sections are left out. The run's page has all._\n"
_MOST_LINES: Final = 12  # the most lines of a story
_MOST_COMMANDS: Final = 3  # the most failures with the command that runs their trial again
_MOST_LISTED: Final = 30  # the most lines of what is left out, and of what is missing


def main(results: Path, run: str, against: str | None) -> int:
    """Returns 0, whatever the verdicts. Raises BadFile."""
    this = Side.of(find(run, results))
    before = None if against is None else Side.of(find(against, results))
    sys.stdout.flush()
    sys.stdout.buffer.write(digest(this, before).encode("utf-8"))  # whatever the terminal's encoding: it goes to a file
    return 0


def digest(this: Side, before: Side | None = None, notes: Sequence[str] = (), older: Sequence[RunContents] = ()) -> str:
    """The page, of at most `MOST_BYTES`. notes: more sentences. older: runs before `before`, the last one first."""
    since = news(None if before is None else before.contents, this.contents, older)
    return _fitted(list(_sections(this, before, since, notes)))


def compared(since: News, cells: Iterable[Cell]) -> str:
    """One sentence on what became of an earlier run's verdicts."""
    many = count(len(judged(cells)), "judgement")
    known = f" {count(len(since.known), 'failing verdict')} known before." if since.known else ""
    known += f" {count(since.left_out, 'trial')} came to no verdict." if since.left_out else ""
    known += f" {count(len(since.missing), 'verdict')} of before missing." if since.missing else ""
    if since.red:
        return f"Worse than before: {count(len(since.red), 'verdict')} of {many}.{known}"
    if since.status == 1:
        return f"Worse than before: no verdict, but a time or rate.{known}"
    if since.lost:
        return f"Nothing worse in {many}, but {count(len(since.lost), 'verdict')} could not be judged.{known}"
    return f"Nothing worse in {many}.{known}"


def _fitted(sections: Sequence[str]) -> str:
    """As many sections as there is room for. A section that is too long is left out; shorter ones may follow."""
    room = MOST_BYTES - len(_CUT.format(len(sections)).encode())
    taken: list[str] = []
    for section in sections:
        size = len(section.encode())
        if size <= room:
            room -= size
            taken.append(section)
    left = len(sections) - len(taken)
    return "".join(taken) + (_CUT.format(left) if left else "")


def _sections(this: Side, before: Side | None, since: News, notes: Sequence[str]) -> Iterator[str]:
    """The sections, the most important first. Each is complete Markdown."""
    root, cells = this.path, this.contents.cells
    of = macros(
        "digest.md",
        signs={word: signs.emoji for word, signs in SIGNS.items() if signs.emoji},
        most_lines=_MOST_LINES,
        NO_FAULT=NO_FAULT,
        NOT_APPLICABLE=Verdict.NOT_APPLICABLE,
        inside=lambda page: (page.relative_to(root) if page.is_relative_to(root) else page).as_posix(),
    )
    certificate = summary.certificate(summary.about_end(root))
    came_to = run_sentence(cells, len(this.contents.problems))
    first, *more = filter(None, (certificate, came_to, "" if since.first else compared(since, cells)))
    yield of.heading(first, more)
    yield from map(of.item, notes)
    earlier = () if before is None else before.contents.cells
    columns = [dict(counts(each)) for each in ([cells, earlier] if earlier else [cells])]
    if words := [word for word in Verdict if any(word in column for column in columns)]:
        yield of.counts(words, columns)
    first = "Failing" if since.first else "New"
    for title, changes in ((first, since.red), ("Not judged any more, or not yet", since.lost), ("Known", since.known)):
        if changes:
            yield of.title(title)
            for number, change in enumerate(changes):
                page = change.after.page if change.after is not None and number < _MOST_COMMANDS else None
                yield of.failing(change, command_of(page))
    if since.cleared:
        yield of.title("Failing no longer")
        yield from map(of.cleared, since.cleared)
    if this.contents.problems:
        yield of.title("Left out")
        yield from _listed(list(map(of.item, this.contents.problems)))
    if since.missing:
        yield of.title("Missing: judged before, and not now")
        places = Counter((change.backend, change.lock, change.fault) for change in since.missing)
        yield from _listed([of.missing(place, number) for place, number in sorted(places.items())])
    if before is not None:
        yield of.compared(before.name, presentation.markdown(since.comparison, before, this))
    yield of.title("Locks \u00d7 faults")
    tried = grouped((cell for cell in cells if cell.page is not None), lambda cell: (cell.backend, cell.version))
    for name, mine in sorted(tried.items()):
        yield of.matrix(" ".join(name).strip(), grid(mine), [each for each in counts(mine) if each[0].fails])
    yield of.end(root.name, typed(root / "index.html"))


def _listed(items: Sequence[str]) -> Iterator[str]:
    yield from items[:_MOST_LISTED]
    if len(items) > _MOST_LISTED:
        yield f"- and {len(items) - _MOST_LISTED} more\n"


def compare_(results: Path, before: str, after: str, form: str | None, html: Path | None, *, all: bool) -> int:
    """Print a comparison. Returns the exit status. Raises BadFile, or OSError if the page cannot be written."""
    a, b = (Side.of(find(name, results)) for name in (before, after))
    comparison = compare(*apart([a.contents, b.contents]))
    if html is not None:
        files.write_text(html, presentation.page(comparison, a, b, html))
    if form == "json":
        print(presentation.to_json(comparison, a, b))
    elif form == "markdown":
        print(presentation.markdown(comparison, a, b))
    else:
        presentation.render(comparison, a, b, Output(), everything=all)
    return comparison.status
