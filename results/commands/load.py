"""`python -m results load RUN`: how much was asked of the locks of each backend, and which part used how much CPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from results.commands.find import NAMING, find, parser
from results.record import CPU_PARTS, LaneSummary
from results.storage import reading


@dataclass(slots=True)
class Totals:
    """Of some lanes and their trials. seconds: of all lanes together. cpu: part → seconds."""

    lanes: int = 0
    grants: int = 0
    operations: int = 0
    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)

    def add(self, lane: LaneSummary) -> None:
        """A lane that was measured."""
        self.lanes += 1
        self.operations += lane.operations
        if lane.measures is not None:
            self.grants += lane.measures["grants"]
            self.seconds += lane.measures["seconds"]

    def use(self, cpu: Mapping[str, float]) -> None:
        """What a trial used."""
        self.cpu = {part: self.cpu.get(part, 0.0) + cpu.get(part, 0.0) for part in CPU_PARTS}

    def row(self, name: str) -> str:
        """A line of the table."""
        each = [name, f"{self.lanes:,}", f"{self.grants:,}", f"{self.operations:,}"]
        each += [f"{number / self.seconds if self.seconds else 0:.1f}" for number in (self.grants, self.operations)]
        return f"| {' | '.join([*each, *(f'{self.cpu.get(part, 0):.0f}' for part in CPU_PARTS)])} |"


def main(arguments: Sequence[str]) -> int:
    """Returns 0. Raises BadFile."""
    made = parser("load", "What a run asked of the locks of each backend, and the CPU time of each part, in Markdown.")
    made.add_argument("run", metavar="RUN", help=NAMING)
    options = made.parse_args(arguments)
    print("\n".join(table(find(options.run, options.results).read().lanes)))
    return 0


def table(lanes: Sequence[LaneSummary]) -> list[str]:
    """A line for each backend, and one for all. Raises BadFile."""
    loads: dict[str, Totals] = {}
    trials = set()
    for lane in lanes:
        both = [loads.setdefault(name, Totals()) for name in (lane.backend, "all")]
        folder = lane.page.parent if lane.page else None
        cpu = reading.about_trial(folder).get("cpu") if folder and folder not in trials else None
        trials.add(folder)
        for load in both:
            load.add(lane)
            load.use(cpu or {})
    head = ("", "lanes", "grants", "operations", "grants/s", "operations/s", *(f"{part} (CPU s)" for part in CPU_PARTS))
    rows = [loads[name].row(name) for name in sorted(loads, key=lambda name: (name == "all", name))]
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows]
