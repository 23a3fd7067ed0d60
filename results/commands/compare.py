"""`python -m results compare A B`: what became better or worse from run A to run B.

Exit status: 0 same or better, 1 worse, 2 bad usage or input, 3 not comparable; 1 beats 2 beats 3 beats 0.
"""

from pathlib import Path

from results.commands.find import find
from results.comparison import presentation
from results.comparison.compare import apart, compare
from results.comparison.presentation import Side
from results.storage import files
from results.terminal.output import Output


def main(results: Path, before: str, after: str, form: str | None, html: Path | None, *, all: bool) -> int:
    """The exit status. Raises BadFile, or OSError where the page cannot be written."""
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
