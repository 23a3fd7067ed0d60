"""`python -m results redraw`: draws the pages of a run again, from what was recorded."""

from collections.abc import Sequence

from results.commands import find
from results.commands.find import NAMING
from results.pages import trend
from results.storage import files
from results.storage.files import BadFile
from results.storage.run_folder import CLOSED
from results.terminal.output import say, warn
from results.text import typed


def main(arguments: Sequence[str]) -> int:
    """Returns 0; 2 if a trial is damaged: its page is not drawn, all others are."""
    parser = find.parser("redraw", "Draw a run's pages again, of an older format too.")
    parser.add_argument("run", metavar="RUN", help=NAMING)
    options = parser.parse_args(arguments)
    run = find.find(options.run, options.results)
    problems: list[str] = []
    for folder in files.entries(run.path / "trials", problems):
        try:
            run.draw_trial(folder)
        except (BadFile, OSError) as error:
            problems.append(files.reason(error))
    head, state = run.head()
    page = run.draw(run.summarise(head.closed, head.about))
    if run.path.parent.resolve() == options.results.resolve():
        problems += filter(None, [trend.refresh(options.results)])
    for problem in problems:
        warn(problem)
    say(f"{typed(page)}" + ("" if state == CLOSED else f" ({state})"))
    return 2 if problems else 0
