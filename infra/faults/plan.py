"""A fault plan: what is done to one backend, when and for how long, as data.

A plan is fixed before the run. Random choices are drawn from the seed and their values are stored, so that a plan read
back from its file does the same again. Only who leads and who holds is found out when a fault is applied.
infra/README.md shows a plan's file.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Self

from infra.backends import BACKENDS
from infra.faults.all_faults import FAULTS, NO_FAULT
from infra.faults.fault import FaultInjection, World
from infra.faults.fault_options import ALL_GROUPS, GROUP, Members
from infra.suggestions import instead

Words = Callable[[FaultInjection], str]  # an injection -> its description; `FaultInjection.describe`, as a rule

MOST_SECONDS: Final = 3600.0  # longest `after` and `for`
AFTER: Final = (0.2, 0.6)  # seconds before a step, least and most. In this time the lock works as it should.
BESIDE: Final = (0.0, 1.5)  # seconds from one fault to the next that overlaps it, least and most
SOON: Final = (0.0, 0.3)  # seconds from a fault on one group of clients to the same on another, least and most
UNDER, OVER = 0.5, 1.5  # leases for which the one lasts if the other lasts longer, or no longer, than a lease
TOGETHER: Final = "+"  # joins the names of faults that overlap
STORM: Final = "storm-"  # the name of a random plan is this and its seed, whatever the backend


class BadPlan(ValueError):
    """A plan that cannot be run. The text is one line that names the field and what it may be."""


@dataclass(frozen=True, slots=True)
class Step:
    """One fault of a plan."""

    fault: str
    after: float  # seconds from the end of all that came before, or from the start of the cycle
    # Seconds from the proof that the fault is applied to the start of its heal. The time in which another fault is
    # being applied does not count.
    for_: float
    options: Mapping[str, Any]  # the values of the fault's options, by name
    beside: bool = False  # whether it overlaps the step before; then `after` counts from when that step was applied

    def injection(self, backend: str, members: Members = ()) -> FaultInjection:
        """The fault with its choices made. Raises ValueError("option: what is wrong")."""
        return FAULTS[self.fault].make(backend, self.options, members)

    def describe(
        self, backend: str, words: Words = lambda injection: injection.describe(), members: Members = ()
    ) -> str:
        """For people: "pause redis1 for 1.5 s"; if the fault passes by itself: "change the leader, then wait 1.5 s"."""
        doing = words(self.injection(backend, members))
        if self.for_ and not FAULTS[self.fault].passes:
            return f"{doing} for {self.for_:.1f} s"
        doing = doing.removesuffix(" and").removesuffix(",")
        return f"{doing}, then wait {self.for_:.1f} s" if self.for_ else doing


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps, one after the other or side by side. Unless `lasting`, they repeat until the trial has what it needs.

    members: those of the plan's cluster, as in `Site.of`. They are not stored.
    """

    name: str
    backend: str
    seed: int
    steps: tuple[Step, ...]
    members: Members = field(default=(), compare=False, repr=False)

    @property
    def fault_names(self) -> tuple[str, ...]:
        """The faults of the plan, each once; `NO_FAULT` if the plan has no steps."""
        return tuple(dict.fromkeys(step.fault for step in self.steps)) or (NO_FAULT,)

    @property
    def lasting(self) -> bool:
        """Whether the plan changes the cluster for good, so that it is run only once."""
        return any(FAULTS[step.fault].lasting for step in self.steps)

    def describe(self, words: Words = lambda injection: injection.describe()) -> list[str]:
        """For people, a line a step: "after 0.9 s: cut clients c2 from all nodes (drop) for 2.0 s"."""
        lines = []
        for number, step in enumerate(self.steps):
            when = "after" if number == 0 else "meanwhile, after" if step.beside else "then, after"
            lines.append(f"{when} {step.after:.1f} s: {step.describe(self.backend, words, self.members)}")
        return lines or ["no fault"]

    def to_json(self) -> dict[str, Any]:
        """Plain data, for `from_json`."""
        return {
            "name": self.name,
            "backend": self.backend,
            "seed": self.seed,
            "steps": [
                {"fault": step.fault, "after": step.after, "for": step.for_, "options": dict(step.options)}
                | ({"beside": True} if step.beside else {})
                for step in self.steps
            ],
        }

    @classmethod
    def from_json(cls, data: object, members: Members = ()) -> Self:
        """The inverse of `to_json`, checked for a cluster with these members. Raises BadPlan."""
        fields = _fields(data, "plan", ("name", "backend", "seed", "steps"))
        if not isinstance(fields["name"], str) or not fields["name"]:
            raise BadPlan(f"name: must be a text, not {fields['name']!r}")
        backend = fields["backend"]
        if backend not in BACKENDS:
            raise BadPlan(f"backend: must be one of {', '.join(BACKENDS)}, not {backend!r}")
        if type(fields["seed"]) is not int:
            raise BadPlan(f"seed: must be a whole number, not {fields['seed']!r}")
        if not isinstance(fields["steps"], list):
            raise BadPlan(f"steps: must be a list, not {fields['steps']!r}")
        steps = tuple(_step(step, f"steps[{number}]", backend, members) for number, step in enumerate(fields["steps"]))
        if steps and steps[0].beside:
            raise BadPlan("steps[0].beside: there is no step before the first")
        return cls(fields["name"], backend, fields["seed"], steps, members)


def parse(text: str, members: Mapping[str, Members] = MappingProxyType({})) -> Plan:
    """A plan from the text of its file. Raises BadPlan, also for a plan without steps that is not named `NO_FAULT`.

    members: backend -> the members of its cluster, if the cluster is not ours.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise BadPlan(f"not JSON: {error}") from error
    backend = data.get("backend") if isinstance(data, dict) else None
    plan = Plan.from_json(data, members.get(backend, ()) if isinstance(backend, str) else ())
    if not plan.steps and plan.name != NO_FAULT:
        raise BadPlan(
            f"steps: must not be empty, or nothing would be done; only the plan named {NO_FAULT} does nothing"
        )
    if plan.steps and plan.name == NO_FAULT:
        raise BadPlan(f"name: {NO_FAULT} is the plan without steps, and this one has {len(plan.steps)}")
    return plan


def fault_names(column: str) -> tuple[str, ...]:
    """The faults of `a+b`, which overlap."""
    return tuple(column.split(TOGETHER))


def storm_seed(column: str) -> int | None:
    """The seed of a storm: 17 of `storm-17`; None if the column is no storm."""
    seed = column.removeprefix(STORM)
    return int(seed) if seed != column and seed.isascii() and seed.isdigit() else None


def compile_plan(fault_names: Sequence[str], seed: int, backend: str, ttl: float, members: Members = ()) -> Plan:
    """The plan that does each of these faults once. Each begins while the faults before it go on.

    ttl: the longest of the lanes, in seconds. Raises BadPlan for a fault that does not exist, does not apply to the
    backend, or needs a plan that sets its options.
    """
    names = [name for name in fault_names if name != NO_FAULT]
    plan_name = TOGETHER.join(names) or NO_FAULT
    rng = random.Random(f"{seed}:{plan_name}")
    steps = [_drawn(rng, name, backend, ttl, members, beside=number > 0) for number, name in enumerate(names)]
    if len(steps) == 1:
        steps += _on_another_group(rng, steps[0], FAULTS[steps[0].fault].unit(backend, ttl))
    return Plan(plan_name, backend, seed, tuple(steps), members)


def plan_of_steps(name: str, steps: Sequence[tuple[str, float, float]], seed: int, backend: str) -> Plan:
    """The plan that does these faults one after another: (fault, after, for) of each, in seconds."""
    rng = random.Random(f"{seed}:{name}")
    drawn = [_drawn(rng, fault, backend, ttl=1.0, members=(), beside=False) for fault, _, _ in steps]
    timed = (replace(step, after=after, for_=for_) for step, (_, after, for_) in zip(drawn, steps, strict=True))
    return Plan(name, backend, seed, tuple(timed))


def random_plan(seed: int, backend: str, ttl: float, members: Members = ()) -> Plan:
    """A plan of up to three overlapping faults that can be done to the backend. ttl: as in `compile_plan`."""
    rng = random.Random(f"{seed}:{backend}")
    world = World(members=members)
    there_are = [
        name for name, fault in FAULTS.items() if not (fault.planned or fault.workload or fault.applies(backend, world))
    ]
    return compile_plan(rng.sample(there_are, rng.randint(1, 3)), seed, backend, ttl, members)


def _drawn(rng: random.Random, name: str, backend: str, ttl: float, members: Members, *, beside: bool) -> Step:
    _check_applies(name, backend, "fault", members)
    fault = FAULTS[name]
    if fault.planned:
        raise BadPlan(f"fault: {name} {fault.planned}")
    options = fault.choose(rng, backend, members)
    after = round(rng.uniform(*(BESIDE if beside else AFTER)), 2)
    # A generator of its own, so that one fault does not last equally long on every backend.
    for_ = fault.lasts(random.Random(f"{rng.random()}:{backend}"), backend, ttl)
    return Step(name, after, for_, options, beside)


def _on_another_group(rng: random.Random, step: Step, unit: float) -> list[Step]:
    """The same fault on another group of clients, if it strikes one group: the one for less than a lease, the other for
    more, since they leave behind different things. unit: `Fault.unit`.
    """
    if GROUP not in FAULTS[step.fault].options:
        return []
    options = {**step.options, "group": rng.choice([group for group in ALL_GROUPS if group != step.options["group"]])}
    for_ = unit * (UNDER if step.for_ >= unit else OVER)
    return [Step(step.fault, round(rng.uniform(*SOON), 2), round(for_, 3), options, beside=True)]


def _step(data: object, where: str, backend: str, members: Members) -> Step:
    fields = _fields(data, where, ("fault", "after", "for", "options"), optional=("beside",))
    _check_applies(fields["fault"], backend, f"{where}.fault", members)
    for name in ("after", "for"):
        seconds = fields[name]
        if type(seconds) not in (int, float) or not 0 <= seconds <= MOST_SECONDS:
            raise BadPlan(f"{where}.{name}: must be seconds from 0 to {MOST_SECONDS:.0f}, not {seconds!r}")
    if not isinstance(fields["options"], dict):
        raise BadPlan(f"{where}.options: must be an object, not {fields['options']!r}")
    beside = fields.get("beside", False)
    if type(beside) is not bool:
        raise BadPlan(f"{where}.beside: must be true or false, not {beside!r}")
    step = Step(fields["fault"], float(fields["after"]), float(fields["for"]), dict(fields["options"]), beside)
    try:
        step.injection(backend, members)
    except ValueError as error:
        raise BadPlan(f"{where}.options.{error}") from error
    return step


def _check_applies(name: object, backend: str, where: str, members: Members) -> None:
    if not isinstance(name, str) or name not in FAULTS:
        raise BadPlan(f"{where}: there is no {name!r}; {instead(name, FAULTS)}")
    if reason := FAULTS[name].applies(backend, World(members=members)):
        raise BadPlan(f"{where}: {name} does not apply to {backend}: {reason}")


def _fields(data: object, where: str, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """The object, which must have exactly these fields and may have the optional ones. Raises BadPlan."""
    if not isinstance(data, dict):
        raise BadPlan(f"{where}: must be an object, not {data!r}")
    for name in names:
        if name not in data:
            raise BadPlan(f"{where}.{name}: is missing")
    for name in data:
        if name not in (*names, *optional):
            raise BadPlan(f"{where}.{name}: there is no such field; there are {', '.join((*names, *optional))}")
    return data
