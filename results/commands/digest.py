"""`python -m results digest RUN [--against PREVIOUS]`: a run in a page of Markdown, for the summary of a CI job.

Recorded strings cannot act as markup (`results.report.markdown`).
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from checkers.claims import NO_FAULT, Verdict
from results.commands.find import NAMING, find, parser
from results.comparison import presentation
from results.comparison.compare import Change, Seen
from results.comparison.news import News, news
from results.comparison.presentation import Side
from results.record import Cell, judged
from results.report.became import Kind
from results.report.grid import Square, counts, grid
from results.report.markdown import code, table, text
from results.storage import summary
from results.storage.reading import Contents
from results.text import count, typed

MOST_BYTES: Final = 1 << 20
"""The most bytes of a job's summary on GitHub."""
_CUT: Final = "\n_Too long for the summary of a job: {} of its sections are left out. The run's page has all._\n"
_MOST_LINES: Final = 12
"""The most lines of a story."""
_SIGNS: Final = {
    Verdict.VIOLATED: "\u26d4",
    Verdict.HAZARD_NOT_SHOWN: "\U0001f507",
    Verdict.UNKNOWN: "\u2754",
    Verdict.UNEXERCISED: "\u2754",
    Verdict.BROKEN_AS_DOCUMENTED: "\u26a0\ufe0f",
}
_MOST_LISTED: Final = 30
"""The most lines of what is left out, and of what is missing."""


def main(arguments: Sequence[str]) -> int:
    """Returns 0, whatever the verdicts. Raises BadFile."""
    made = parser("digest", "A run in a page of Markdown, for the summary of a CI job.")
    made.add_argument("run", metavar="RUN", help=NAMING)
    made.add_argument("--against", metavar="PREVIOUS", help="an earlier run to compare it with")
    options = made.parse_args(arguments)
    this = Side.of(find(options.run, options.results))
    before = None if options.against is None else Side.of(find(options.against, options.results))
    sys.stdout.flush()
    sys.stdout.buffer.write(digest(this, before).encode("utf-8"))  # whatever the terminal's encoding: it goes to a file
    return 0


def digest(this: Side, before: Side | None = None, notes: Sequence[str] = (), older: Sequence[Contents] = ()) -> str:
    """The page, at most `MOST_BYTES` long in UTF-8.

    notes: sentences with what else must be known. older: runs before `before`, the last one first.
    """
    since = news(None if before is None else before.contents, this.contents, older)
    return _fitted(list(_sections(this, before, since, notes)))


def headline(since: News, cells: Iterable[Cell]) -> str:
    """One sentence, without recorded strings."""
    number = len(judged(cells))
    many = count(number, "judgement")
    known = f" {count(len(since.known), 'failing verdict')} known before." if since.known else ""
    known += f" {count(since.left_out, 'trial')} came to no verdict." if since.left_out else ""
    known += f" {count(len(since.missing), 'verdict')} of before missing." if since.missing else ""
    if not number:
        return f"Nothing was judged.{known}"
    if since.first:
        failing = len(since.red)
        return f"{count(failing, 'failing verdict') if failing else 'No failing verdict'} in {many}.{known}"
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
    cells = this.contents.cells
    certified = summary.certificate_of(this.path)
    yield f"## {text(certified)}\n\n{headline(since, cells)}\n\n" if certified else f"## {headline(since, cells)}\n\n"
    yield from (f"- {text(note)}\n" for note in notes)
    yield _counts(cells, () if before is None else before.contents.cells)
    first = "Failing" if since.first else "New"
    for title, changes in ((first, since.red), ("Not judged any more, or not yet", since.lost), ("Known", since.known)):
        if changes:
            yield f"\n### {title}\n\n"
            yield from (_detail(change, this.path) for change in changes)
    if since.cleared:
        yield "\n### Failing no longer\n\n"
        yield from (f"- {_where(change)}: {_was(change)}\n" for change in since.cleared)
    if this.contents.problems:
        yield "\n### Left out\n\n"
        yield from _listed([text(problem) for problem in this.contents.problems])
    if since.missing:
        yield "\n### Missing: judged before, and not now\n\n"
        yield from _listed(_missing(since.missing))
    if before is not None:
        yield f"\n### Compared with {code(before.name)}\n\n{presentation.markdown(since.comparison, before, this)}\n"
    yield "\n### Locks \u00d7 faults\n\n"
    for backend, version in sorted({(cell.backend, cell.version) for cell in cells if cell.page is not None}):
        mine = [cell for cell in cells if (cell.backend, cell.version) == (backend, version) and cell.page is not None]
        yield _matrix(f"{backend} {version}".strip(), mine)
    yield f"\nRun {code(this.path.name)}; its page: {code(str(typed(this.path / 'index.html')))}\n"


def _listed(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"- {line}\n" for line in lines[:_MOST_LISTED])
    if len(lines) > _MOST_LISTED:
        yield f"- and {len(lines) - _MOST_LISTED} more\n"


def _missing(changes: Iterable[Change]) -> list[str]:
    """A line for each lock and fault with missing verdicts."""
    places = Counter((change.backend, change.lock, change.fault) for change in changes)
    return [
        f"{count(number, 'verdict')} of {code(lock)} {_under(fault)} on {text(backend)}"
        for (backend, lock, fault), number in sorted(places.items())
    ]


def _counts(cells: Sequence[Cell], before: Sequence[Cell]) -> str:
    now, then = dict(counts(cells)), dict(counts(before))
    words = [word for word in Verdict if word in now or word in then]
    if not words:
        return ""
    columns = (now, then) if before else (now,)
    rows = ([word, *(str(column.get(word, 0)) for column in columns)] for word in words)
    return "\n".join(["", *table(("judgement", "now", "before")[: 1 + len(columns)], rows, numbers=True), ""])


def _detail(change: Change, root: Path) -> str:
    """A failing cell, folded."""
    seen = change.after
    assert seen is not None, "what fails was judged"
    sign = _SIGNS.get(seen.word, "")
    head = f"{sign} <b>{seen.word}</b> {_where(change)}" + (f" ({change.worse})" if change.worse else "")
    story = "".join(f"<li>{text(line)}</li>" for line in seen.story[:_MOST_LINES])
    more = len(seen.story) - _MOST_LINES
    lines = [
        f"<details><summary>{head}</summary>",
        f"<p>{text(seen.because)}</p>" if seen.because else "",
        f"<ol>{story}{f'<li>and {more} more</li>' if more > 0 else ''}</ol>" if story else "",
        f"<p>{_was(change)}</p>" if change.before is not None else "",
        _page(seen, root),
        "</details>",
    ]
    return "".join(line + "\n" for line in lines if line) + "\n"


def _where(change: Change) -> str:
    of = code(change.lane or change.lock)
    return f"{code(change.property)} of {of} {_under(change.fault)} on {text(change.backend)}"


def _under(fault: str) -> str:
    return "without a fault" if fault == NO_FAULT else f"under {code(fault)}"


def _was(change: Change) -> str:
    was = change.before
    assert was is not None, "only what was judged before is told of"
    now = f", now {change.after.word}" if change.kind is Kind.CLEARED and change.after is not None else ""
    return f"before: {was.word}{now}"


def _page(seen: Seen, root: Path) -> str:
    if seen.page is None:
        return ""
    page = seen.page.relative_to(root) if seen.page.is_relative_to(root) else seen.page
    return f"<p>page: {code(page.as_posix())}</p>"


def _matrix(name: str, cells: Sequence[Cell]) -> str:
    """The matrix of one backend: faults down, locks across, in a square its heaviest word and the number of it."""
    made = grid(cells)
    rows = ([code(fault), *(_square(made.squares.get((fault, lock))) for lock in made.locks)] for fault in made.faults)
    failing = ", ".join(f"{number} {word}" for word, number in counts(cells) if word.fails) or "nothing fails"
    summary = f"<details><summary>{text(name)}: {failing}</summary>"
    return "\n".join([summary, "", *table(["fault", *map(code, made.locks)], rows), "", "</details>", "", ""])


def _square(square: Square | None) -> str:
    if square is None:
        return ""
    sign = _SIGNS.get(square.word, "")
    word = str(square.word) if square.word is Verdict.NOT_APPLICABLE else f"{square.word} {len(square.first)}"
    return f"{sign} {word}" if sign else word
