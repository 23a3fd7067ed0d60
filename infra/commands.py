"""Environments by hand: the commands `up`, `status`, `logs`, `cut`, `pause`, `resume`, `kill`, `start`, `heal`, `down`.

Each function takes its arguments and returns the exit status. An error is raised as `Trouble`, and the caller turns it
into an exit status. A test into whose environment a command looks is a different one then.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from docker import DockerClient
from docker.errors import DockerException
from requests import RequestException

from infra.backends import BACKENDS, parse_shapes
from infra.backends.backend import Trait
from infra.cluster import container, frozen
from infra.cluster.nodes import Node
from infra.docker import client as engine_client
from infra.docker import images, machine, owner, reaper
from infra.errors import Failed, UnknownName
from infra.network.links import Cut
from infra.network.topology import GROUPS, STORE, groups_of
from infra.own_environment import OwnEnvironment
from infra.suggestions import command

BY_HAND: Final = "by-hand"
"""Name of the environment that `up` makes unless another is named."""
CLEAN_WITHIN: Final = 5.0
"""Seconds after a heal until no fault may show any more."""
USUAL: Final = tuple(name for name, backend in BACKENDS.items() if not backend.user)
"""The backends that `up` boots when none is named: those that let everybody in."""


def up(backends: Sequence[str], version_of: Sequence[str], shape: Sequence[str], env: str | None) -> int:
    env = env or BY_HAND
    shapes = parse_shapes(shape)
    wanted: dict[str, str | None] = dict.fromkeys((*backends, *shapes))
    for pair in version_of:
        backend, version = images.spelled(pair)
        if not version:
            raise UnknownName(f"--version-of {pair}: say BACKEND=VERSION, as etcd=3.4")
        wanted[backend] = version
    if unknown := [backend for backend in wanted if backend not in BACKENDS]:
        raise UnknownName(f"no backend {unknown[0]!r}; there are {', '.join(BACKENDS)}")
    with _engine_errors(), contextlib.ExitStack() as undo:
        if any(environment.name == env for environment in reaper.find(engine_client.connect())):
            environment = OwnEnvironment.attach(env)
        else:
            environment = OwnEnvironment.start(name=env, keep=True, shapes=shapes)
            undo.callback(environment.close)
        for backend, wished in shapes.items():
            if (has := environment.kinds[backend].shape) != wished:
                raise Failed(f"{env} has {backend}={has} and cannot have {backend}={wished} as well")
        environment.boot(wanted or dict.fromkeys(USUAL))
        undo.pop_all()
        _print_addresses(environment)
    return 0


def status(env: str | None) -> int:
    with _engine_errors():
        client = engine_client.connect()
        environments = reaper.find(client)
        for environment in [_pick(environments, env)] if env else environments:
            _print_status(client, environment)
    if not environments:
        print("no environments")
    return 0


def logs(node: str, env: str | None) -> int:
    with attached(env) as environment:
        sys.stdout.buffer.write(environment.logs(node))
    return 0


def cut(a: str, b: str, how: str, env: str | None, *, one_way: bool) -> int:
    if one_way and Cut(how) is Cut.REFUSE:
        raise UnknownName("--one-way goes with --how drop or hold: a connection is refused to both ends")
    with attached(env) as environment:
        (environment.links.block if one_way else environment.links.cut)(a, b, Cut(how))
        print_faults(environment.unclean())
    return 0


def heal(env: str | None) -> int:
    """Returns when all members serve."""
    with attached(env) as environment:
        try:
            environment.heal()
        except Failed as error:
            raise Failed(f"{error}; if another heal does not help: {_down(environment)}") from error
        left = environment.still_unclean(CLEAN_WITHIN)
        print_faults(left)
        if left:
            machine.say(f"not everything is healed; if another heal does not help: {_down(environment)}")
    return int(bool(left))


def down(env: str | None, *, all: bool) -> int:
    with _engine_errors():
        client = engine_client.connect()
        if not env:
            reaper.reap(client)
        environments = reaper.find(client)
        for environment in [_pick(environments, env)] if env else environments:
            if env or all or environment.owners == {owner.KEPT}:
                reaper.remove(client, environment.name)
                frozen.thaw(environment.name)
                print(f"removed {environment.name} ({environment.things} containers, networks and volumes)")
            else:
                print(f"left {environment.name}, which belongs to {_owner(environment)} (--all removes it too)")
    return 0


# --- what the commands share ---


@contextlib.contextmanager
def attached(env: str | None) -> Iterator[OwnEnvironment]:
    """The environment that a command is about: the one named, else that of `up`, else the only one there is."""
    with _engine_errors():
        environments = reaper.find(engine_client.connect())
        if not environments:
            raise Failed(f"no environments ({command('up')})")
        names = [environment.name for environment in environments]
        if not env and len(environments) > 1 and BY_HAND not in names:
            raise UnknownName(f"which environment? --env {' or '.join(names)}")
        name = env or (BY_HAND if BY_HAND in names else names[0])
        yield OwnEnvironment.attach(_pick(environments, name).name)


@contextlib.contextmanager
def _engine_errors() -> Iterator[None]:
    """Turn Docker's exceptions into Failed."""
    try:
        yield
    except (DockerException, RequestException) as error:
        raise Failed(f"Docker Engine: {error}") from error


def _pick(environments: Sequence[reaper.FoundEnvironment], name: str) -> reaper.FoundEnvironment:
    there = {environment.name: environment for environment in environments}
    if name not in there:
        raise UnknownName(f"no environment {name!r}; there are {', '.join(there) or 'none'}")
    return there[name]


def _to_node(verb: Callable[[Node], None], node: str, env: str | None) -> int:
    with attached(env) as environment:
        hit = environment.node(node)
        verb(hit)
        print(f"{hit.name} is {hit.state()}")
    return 0


pause, resume, kill, start = (partial(_to_node, verb) for verb in (Node.pause, Node.let_go, Node.kill, Node.let_go))


def _owner(environment: reaper.FoundEnvironment) -> str:
    return ", ".join(owner.describe(label, dead=environment.dead) for label in sorted(environment.owners))


def _print_addresses(environment: OwnEnvironment) -> None:
    print(f"environment {environment.name}")
    through_groups = " ".join(f"through c{group:<12}" for group in GROUPS)
    print(f"  {'node':<14} {'version':<12} {'past the links':<22} {through_groups}")
    for cluster in environment.clusters.values():
        for node in cluster.everybody:
            groups = groups_of(node.name)
            ways = " ".join(f"{environment.endpoints_of(node.name, group):<21}" for group in groups)
            print(f"  {node.name:<14} {node.version():<12} {node.endpoint:<22} {ways}")
    for backend in environment.clusters:
        if note := BACKENDS[backend].login_note:
            print(f"  {backend:<14} {note.format(password=environment.password)}")
    print(f"  {STORE:<14} past the links {environment.store_dsn(None)}")
    for group in GROUPS:
        print(f"  {'':<14} through c{group}     {environment.store_dsn(group)}")


def _print_status(client: DockerClient, listed: reaper.FoundEnvironment) -> None:
    print(f"environment {listed.name} ({_owner(listed)})")
    try:
        environment = OwnEnvironment.attach(listed.name)
    except Failed as error:
        print(f"  {error}")
        return
    states = container.states(client, listed.name)
    for backend, cluster in environment.clusters.items():
        leader = cluster.leader()
        for node, health in cluster.all_healths().items():
            what = [states.get(node.name, "gone"), health.version if health else "does not serve"]
            what += ["leader"] if node is leader else ["observer"] if node.name in cluster.kind.observers else []
            print(f"  {node.name:<14} {', '.join(what)}")
        if not leader and BACKENDS[backend].has(Trait.LEADER):
            print(f"  {backend} has no leader")
    for service in (STORE, "toxiproxy"):
        print(f"  {service:<14} {states.get(service, 'gone')}")
    print(f"  links          {len(environment.links.pairs())} ordered pairs")
    print_faults(environment.unclean())


def _down(environment: OwnEnvironment) -> str:
    return f"{command(f'down --env {environment.name}')} removes it all"


def print_faults(faults: Sequence[str]) -> None:
    """Print everything that differs from the start: links, nodes, clocks, disks, versions, processes."""
    print("\n".join(f"  fault          {line}" for line in faults) if faults else "  no faults")
