"""`python -m results compare A B`: what became better or worse from run A to run B.

Exit status: 0 same or better, 1 worse, 2 bad usage or input, 3 not comparable; 1 beats 2 beats 3 beats 0.
"""

from collections.abc import Sequence
from pathlib import Path

from results.commands.find import NAMING, find, parser
from results.comparison import difference_page, presentation
from results.comparison.compare import apart, compare
from results.comparison.presentation import Side
from results.storage import files
from results.terminal.output import Output


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status. Raises BadFile, or OSError where the page cannot be written."""
    made = parser("compare", "What became better or worse from run A to run B.")
    made.add_argument("before", metavar="A", help=NAMING)
    made.add_argument("after", metavar="B", help="likewise")
    made.add_argument("--all", action="store_true", help="tell of what is the same, too")
    how = made.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print one JSON object")
    how.add_argument("--markdown", action="store_true", help="print Markdown, for the summary of a CI job")
    made.add_argument("--html", type=Path, metavar="FILE", help="write a page, too")
    options = made.parse_args(arguments)
    before, after = (Side.of(find(name, options.results)) for name in (options.before, options.after))
    comparison = compare(*apart([before.contents, after.contents]))
    if options.html is not None:
        files.write_text(options.html, difference_page.render(comparison, before, after, options.html))
    if options.json:
        print(presentation.to_json(comparison, before, after))
    elif options.markdown:
        print(presentation.markdown(comparison, before, after))
    else:
        presentation.render(comparison, before, after, Output(), everything=options.all)
    return comparison.status
