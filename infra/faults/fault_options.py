"""What a plan fixes about a fault: options. The check and the random choice of an option stand in one place.

NODES = nodes(most=2)
HOW = choice("how", (Cut.DROP, Cut.HOLD))
LATENCY = number("latency_ms", 20, 1000, within((80, 120)))
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from infra.backends import BACKENDS
from infra.backends.backend import Backend, Trait
from infra.network.topology import GROUPS, client

Options = Mapping[str, Any]  # name -> value, as plain JSON

Members = tuple[str, ...]  # the names of the members of a cluster, in order

ALL_GROUPS: Final = tuple(map(client, GROUPS))

LEADER: Final = "leader"  # stands for the node that leads at the moment of impact
FOLLOWER: Final = "follower"  # stands for as many voters as are a majority with the leader: of three, the first other


@dataclass(frozen=True, slots=True)
class Site:
    """The cluster that a fault is planned for: its kind of server, and the names of its members in order."""

    backend: Backend
    members: Members

    @classmethod
    def of(cls, backend: str, members: Members = ()) -> Self:
        """The site of a backend. members: those of a target's cluster; () for those of ours."""
        return cls(BACKENDS[backend], members or BACKENDS[backend].members)

    def has(self, trait: Trait) -> bool:
        return self.backend.has(trait)


Draw = Callable[[random.Random, Site, Options], Any]
"""(rng, site, the options before it) -> a random value for an option, as plain JSON."""


@dataclass(frozen=True, slots=True)
class Option:
    """A value that a fault needs."""

    name: str
    # (value, site, the options before it) -> the value as the injection takes it. Raises ValueError with a text that
    # says what the value must be.
    check: Callable[[Any, Site, Options], Any]
    draw: Draw | None = None  # None if only a plan can set it
    unless: Trait | None = None  # backends that have this trait do not have this option


def checked(known: Sequence[Option], options: Options, site: Site) -> dict[str, Any]:
    """The checked values. Raises ValueError("option: what is wrong") unless all known options are given and right."""
    names = [option.name for option in known]
    for name in options:
        if name not in names:
            raise ValueError(f"{name}: there is no such option" + (f" ({', '.join(names)})" if names else ""))
    for name in names:
        if name not in options:
            raise ValueError(f"{name}: is missing")
    values = {}
    for option in known:
        try:
            values[option.name] = option.check(options[option.name], site, options)
        except ValueError as error:
            raise ValueError(f"{option.name}: {error}, not {options[option.name]!r}") from None
    return values


def drawn(known: Sequence[Option], rng: random.Random, site: Site) -> dict[str, Any]:
    """A random value for each of the options that is left to chance, as plain JSON."""
    options: dict[str, Any] = {}
    for option in known:
        if option.draw:
            options[option.name] = option.draw(rng, site, options)
    return options


def must(condition: object, what: str) -> None:
    """Raises ValueError unless the condition holds. what: "be one of a, b"."""
    if not condition:
        raise ValueError(f"must {what}")


# --- kinds of options ---


def choice(name: str, known: Sequence[str]) -> Option:
    """One of a few words; the random choice is any of them."""
    return one_of(name, lambda _: known, lambda rng, _, __: str(rng.choice(known)))


def one_of(name: str, known: Callable[[Site], Sequence[str]], draw: Draw | None = None) -> Option:
    """One of the names that a backend has."""

    def check(value: Any, site: Site, _: Options) -> str:
        names = known(site)
        must(value in names, "be " + (" or ".join(names) if len(names) == 2 else f"one of {', '.join(names)}"))
        return str(value)

    return Option(name, check, draw)


def number(
    name: str, least: int, most: int | Callable[[Site], int], draw: Draw | None = None, what: str = "a whole number"
) -> Option:
    def check(value: Any, site: Site, _: Options) -> int:
        bound = most if isinstance(most, int) else most(site)
        must(type(value) is int and least <= value <= bound, f"be {what} from {least} to {bound}")
        return int(value)

    return Option(name, check, draw)


def follower(name: str) -> Option:
    """The index of a node among those that do not lead."""

    def draw(rng: random.Random, site: Site, _: Options) -> int:
        return rng.randrange(len(site.members) - 1)

    return number(name, 0, lambda site: len(site.members) - 2, draw, "a number")


def real(name: str, least: float, most: float, draw: Draw) -> Option:
    def check(value: Any, _: Site, __: Options) -> float:
        must(type(value) in (int, float) and least <= value <= most, f"be a number from {least:g} to {most:g}")
        return float(value)

    return Option(name, check, draw)


def within(bounds: tuple[int, int]) -> Draw:
    """The random choice of a whole number within two bounds, both included."""
    return lambda rng, _, __: rng.randint(*bounds)


def different(names: Any, known: Sequence[str], most: int, least: int = 1) -> tuple[str, ...]:
    """Several different names. Raises ValueError."""
    must(isinstance(names, list) and names and all(name in known for name in names), f"be a list of {', '.join(known)}")
    must(len(set(names)) == len(names) <= most, f"be at most {most} different nodes")
    must(len(names) >= least, f"be at least {least} different nodes")
    return tuple(names)


GROUP: Final = choice("group", ALL_GROUPS)


def _few_groups(value: Any, _: Site, __: Options) -> tuple[str, ...]:
    known = isinstance(value, list) and value and all(group in ALL_GROUPS for group in value)
    must(known, f"be a list of {', '.join(ALL_GROUPS)}")
    must(len(set(value)) == len(value) < len(ALL_GROUPS), "be different groups and not all of them")
    return tuple(value)


FEW_GROUPS: Final = Option(
    "groups",
    _few_groups,
    lambda rng, _, __: sorted(rng.sample(ALL_GROUPS, rng.randint(1, len(ALL_GROUPS) - 1))),
    unless=Trait.LEADER,
)
"""Some client groups, not all: those that see one side of a split, if the servers do not talk to each other."""


def some_nodes(rng: random.Random, site: Site, most: int, least: int) -> list[str]:
    """From `least` to `most` random nodes. With Trait.FIRST_NODE, the first of the list is always the first node."""
    names, count = site.members, rng.randint(least, most)
    if site.has(Trait.FIRST_NODE):
        return [names[0], *sorted(rng.sample(names[1:], count - 1))]
    return sorted(rng.sample(names, count))


def victims(
    most: int = 2, *, known: Sequence[str] = (LEADER,), roles: Callable[[Site], Sequence[str]] = lambda _: (LEADER,)
) -> Option:
    """The servers that are hit. If there is a leader: as many as there are `known` roles, each by its name or its role;
    the random choice is `roles`. Else: at most `most` nodes; the random choice has as many: the first, where
    single-node locks live, and others of the next `most`. So two are a minority of five nodes, but a majority of the
    three that a lock may use.
    """

    def count(site: Site) -> int:
        return min(most, len(site.members))

    def check(value: Any, site: Site, _: Options) -> tuple[str, ...]:
        if site.has(Trait.LEADER):
            return different(value, (*known, *site.members), len(known))
        return different(value, site.members, count(site))

    def draw(rng: random.Random, site: Site, _: Options) -> list[str]:
        if site.has(Trait.LEADER):
            return list(roles(site))
        return [site.members[0], *sorted(rng.sample(site.members[1 : count(site) + 1], count(site) - 1))]

    return Option("nodes", check, draw)
