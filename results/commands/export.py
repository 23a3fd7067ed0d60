"""`python -m results export`: one trial, or the matrix of a run, as one self-contained file."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from results.commands import find
from results.pages import run_page, trial_page
from results.run import Run
from results.storage import files
from results.storage.reading import load_trial
from results.terminal.output import say
from results.text import typed

_LINK: Final = re.compile(r'<a [^<>]*href="(?!#)[^"<>]*"[^<>]*>')
"""A link that leads out of the page, of which the words are left. Recorded strings are escaped, so none matches."""


def main(arguments: Sequence[str]) -> int:
    """Returns 0; 2 if the run or trial is missing or damaged."""
    parser = find.parser("export", "Write one self-contained HTML file, to be sent to somebody.")
    parser.add_argument("of", metavar="RUN[/TRIAL]", help="a run, a trial of it, or a trial's folder")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: the name of what is exported")
    options = parser.parse_args(arguments)
    run, trial = find.run_or_trial(options.of, options.results)
    text = _LINK.sub("<a>", _run(run) if trial is None else _trial(trial))
    output = options.output or Path(files.safe_name((trial or run.path).name) + ".html")
    files.write_text(output, text)
    say(str(output))
    return 0


def _trial(folder: Path) -> str:
    """Raises BadFile."""
    return trial_page.render(load_trial(folder), typed(folder), inline=True)


def _run(run: Run) -> str:
    """The run's page without links to its trials, whose pages are not exported. Raises BadFile."""
    contents = run.read()
    cells = [replace(cell, page=None) for cell in contents.cells]
    lanes = [replace(lane, page=None) for lane in contents.lanes]
    head, _ = run.head()
    return run_page.render(run.path, {**head.asked, **head.about}, cells, contents.problems, lanes)
