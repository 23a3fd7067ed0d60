"""`python -m results rejudge`: judges stored histories by today's checkers, and lists what differs."""

from collections.abc import Sequence

from results.commands import find
from results.commands.find import NAMING
from results.storage import files, verdicts
from results.storage.files import BadFile
from results.storage.reading import load_trial
from results.terminal.output import say, warn


def main(arguments: Sequence[str]) -> int:
    """Returns 0 if all is the same, 1 if something is judged differently, 2 if something is damaged. 1 beats 2."""
    parser = find.parser(
        "rejudge", "Judge a run's histories again, and list what is judged differently. Changes nothing."
    )
    parser.add_argument("run", metavar="RUN[/TRIAL]", help=f"a run ({NAMING}), or one of its trials")
    options = parser.parse_args(arguments)
    run, trial = find.run_or_trial(options.run, options.results)
    problems: list[str] = []
    judged = different = 0
    for folder in [trial] if trial is not None else files.entries(run.path / "trials", problems):
        try:
            for lane in load_trial(folder).lanes:
                judged += len(lane.judgements)
                for line in verdicts.differences(lane, verdicts.again(lane)):
                    different += 1
                    say(f"{folder.name}  {line}")
        except BadFile as error:
            problems.append(str(error))
    print(f"{judged} judgements, {different or 'none'} different")
    for problem in problems:
        warn(problem)
    return 1 if different else 2 if problems else 0
