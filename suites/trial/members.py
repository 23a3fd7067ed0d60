"""What each member of a service holds of a trial's locks, lane by lane, and which members ended, or do not serve any
more. Members are asked past all links.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar
from urllib.parse import unquote

from checkers.history.history import Contents, Entry, Outage
from infra.backends.answers import NO_ANSWER, Held
from infra.backends.backend import Server, Trait
from infra.background_writes import BackgroundWrites
from infra.cluster import node_repair
from infra.cluster.exit_reason import last_words
from infra.cluster.nodes import READY_WITHIN, Node
from infra.environment import Environment
from infra.errors import Failed
from infra.own_environment import OwnEnvironment
from suites.trial.lane_history import RunningLane
from suites.worker.pool import TrialBroke

ASKED_WITHIN: Final = 10.0  # seconds for a member to answer once all faults are undone
_AGAIN: Final = 0.1  # seconds until a member that did not answer is asked again

Answer = tuple[str, int, Held, int]  # a member, when it was asked (ns), what it held, and when it had answered

Look = tuple[Contents, ...]  # what a first member held, then the others, then the first again


def look(
    environment: Environment, backend: str, lanes: Sequence[RunningLane], writes: BackgroundWrites, *, quiet: bool
) -> Mapping[str, Look]:
    """Lane → what each member held of its locks; empty if no members hold the same, or the cluster is not ours.

    writes: the client that wrote beside the locks. quiet: whether nobody writes any more; if not, the result is empty
    for a backend that does not number its changes. Raises TrialBroke if a member does not answer.
    """
    kind = environment.kinds[backend]
    if not (kind.copies and environment.ours and (quiet or kind.has(Trait.LEADER))):
        return {}
    names = [name for lane in lanes for name in lane.keys]

    def ask(member: str, since: int) -> Answer:
        begun = time.monotonic_ns()
        held = _answered(environment, member, lambda server: kind.held(server, partial(_names, names), since))
        return member, begun, held, time.monotonic_ns()

    first, *others = kind.copies
    before = ask(first, 0)
    since = before[2].last if quiet else 0
    answers = [before, *(ask(member, since) for member in (*others, first))]
    beside = _beside(environment, backend, writes) if quiet and writes.known else {}

    def of(lane: RunningLane, answer: Answer) -> Contents:
        member, begun, held, answered = answer
        mine = tuple(Entry(*entry) for entry in held.entries if _names(lane.keys, entry[0]))
        return Contents(member, begun, answered, held.first, held.last, mine, held.whole, *beside.get(member, ()))

    return {lane.lane.name: tuple(of(lane, answer) for answer in answers) for lane in lanes}


def ends(environment: Environment, backend: str, since: int) -> list[Outage]:
    """How members ended by themselves since a moment (ns), as far as anybody came upon it."""
    return [
        Outage(node.name, end.at, end.status, end.words)
        for node in _of_the_release(environment, backend)
        for end in node.ends
        if end.at >= since
    ]


def gone(environment: Environment, backend: str) -> list[Outage]:
    """The members that still do not serve in `READY_WITHIN` seconds, though they are started again and again. Empty if
    the cluster is not ours, or anything else is wrong: something is left of a fault, or the engine starts nothing.
    """
    cluster, begun = environment.cluster(backend), time.monotonic_ns()
    if not isinstance(environment, OwnEnvironment) or environment.links.active() or environment.disks.active():
        return []
    with contextlib.suppress(Failed):
        cluster.await_ready(mend=partial(node_repair.mend, cluster=cluster))
    now, absent = time.monotonic_ns(), []
    for node in (node for node, health in cluster.all_healths().items() if not health):
        end, state = node.process.last_end(), node.state()
        if state == "paused" or (state == "stopped" and not end) or node not in _of_the_release(environment, backend):
            return []
        status, words = (end.status, end.words) if end else (None, last_words(node.process.logs()))
        absent.append(Outage(node.name, now, status, words, now - begun))
    return absent if now - begun >= READY_WITHIN * 1e9 else []


def _of_the_release(environment: Environment, backend: str) -> list[Node]:
    """The members, and the auxiliaries whose server is the backend's own."""
    others = {auxiliary.name for auxiliary in environment.kinds[backend].auxiliaries if auxiliary.package}
    return [node for node in environment.cluster(backend).everybody if node.name not in others]


def _beside(
    environment: Environment, backend: str, writes: BackgroundWrites
) -> Mapping[str, tuple[int, tuple[str, ...], tuple[str, ...]]]:
    """Member → how many keys written beside the locks must be there, which of them it lacks, and which removed ones it
    holds. A key of which nobody knows whether it is there counts as there if any member has it.
    """
    kind, known = environment.kinds[backend], writes.known
    held = {member: _answered(environment, member, kind.written) & known.keys() for member in kind.copies}
    gone = {name for name, there in known.items() if there is False}
    there = {name for name, there in known.items() if there} | frozenset().union(*held.values()) - gone
    return {
        member: (len(there), tuple(sorted(there - names)), tuple(sorted(gone & names)))
        for member, names in held.items()
    }


def _names(keys: Sequence[str], entry: str) -> bool:
    """Whether the service's name of an entry contains one of these keys."""
    plain = unquote(entry)
    return any(key in plain for key in keys)


T = TypeVar("T")


def _answered(environment: Environment, member: str, ask: Callable[[Server], T]) -> T:
    """Ask a member until it answers: it may be slow on an overloaded machine. Raises TrialBroke."""
    server = environment.node(member)
    deadline = time.monotonic() + ASKED_WITHIN
    while True:
        try:
            return ask(server)
        except NO_ANSWER as error:
            if time.monotonic() > deadline:
                raise TrialBroke(f"after the trial: {member} does not say what it holds ({error})") from error
            time.sleep(_AGAIN)
