"""`python -m results load RUN`: how much was asked of the locks of each backend, and which part used how much CPU."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from results.commands.find import NAMING, find, parser
from results.record import CPU_PARTS, LaneSummary, grouped
from results.storage import reading


def main(arguments: Sequence[str]) -> int:
    """Returns 0. Raises BadFile."""
    made = parser("load", "What a run asked of the locks of each backend, and the CPU time of each part, in Markdown.")
    made.add_argument("run", metavar="RUN", help=NAMING)
    options = made.parse_args(arguments)
    print("\n".join(table(find(options.run, options.results).read().lanes)))
    return 0


def table(lanes: Sequence[LaneSummary]) -> list[str]:
    """A line for each backend, and one for all. Raises BadFile."""
    folders = dict.fromkeys(lane.page.parent for lane in lanes if lane.page)
    cpu = {folder: reading.about_trial(folder).get("cpu") or {} for folder in folders}
    by_backend = grouped(lanes, lambda lane: lane.backend)
    rows = [_row(name, by_backend[name], cpu) for name in sorted(by_backend)]
    if lanes:
        rows.append(_row("all", lanes, cpu))
    head = ("", "lanes", "grants", "operations", "grants/s", "operations/s", *(f"{part} (CPU s)" for part in CPU_PARTS))
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows]


def _row(name: str, lanes: Sequence[LaneSummary], cpu: Mapping[Path, Mapping[str, float]]) -> str:
    """A line of the table, of these lanes and their trials. cpu: folder of a trial → part → seconds."""
    measured = [lane.measures for lane in lanes if lane.measures is not None]
    grants, operations = sum(each["grants"] for each in measured), sum(lane.operations for lane in lanes)
    seconds = sum(each["seconds"] for each in measured)
    rates = [f"{number / seconds if seconds else 0:.1f}" for number in (grants, operations)]
    trials = [cpu[folder] for folder in dict.fromkeys(lane.page.parent for lane in lanes if lane.page)]
    used = [f"{sum(trial.get(part, 0.0) for trial in trials):.0f}" for part in CPU_PARTS]
    return f"| {' | '.join([name, f'{len(lanes):,}', f'{grants:,}', f'{operations:,}', *rates, *used])} |"
