"""Recovery by more than a start: of a node with another version, and of a member that lost its place in its cluster."""

from collections.abc import Mapping, Sequence

from infra.backends.backend import Trait
from infra.cluster.exit_reason import last_words
from infra.cluster.nodes import READY_WITHIN, Cluster, Node
from infra.errors import Failed
from infra.network import topology
from infra.waiting import comes_true


class DoesNotStart(Failed):
    """A version does not start on the data that is there."""


def remake(node: Node, image: str) -> str:
    """Start another image on a node's data. Returns, when the node serves, how its data were carried, or "".

    Raises DoesNotStart, with its last words, if the node ends or does not take the data of another major version; then
    the data are as before. Raises Failed if the node does not get ready.
    """

    def decided() -> bool:
        return node.ready() or node.state() == "stopped"

    carry = node.process.carry(image)
    try:
        node.replace(image, carry.over if carry else lambda: None)
    except Failed as error:
        if carry is None or node.process.image() == image:
            raise
        comes_true(decided, READY_WITHIN)
        raise DoesNotStart(f"{node.name} does not go over {carry.how}: {error}") from error
    comes_true(decided, READY_WITHIN)
    if node.state() == "stopped":
        node.bury()
        if carry:
            carry.back()
        raise DoesNotStart(f"{node.name} does not start as {image} on its data: {last_words(node.process.logs())}")
    if not node.ready():
        raise Failed(f"{node.name} does not serve as {image} within {READY_WITHIN:.0f} s")
    if carry:
        carry.done()
    return carry.how if carry else ""


def give_back(nodes: Sequence[Node], booted: Mapping[str, str]) -> list[str]:
    """Start nodes with the images that they were booted with (name -> image), on their present data.

    A member (Trait.MEMBERSHIP) that does not start gets data from its peers anew, if they run the image of `booted`.
    Others go back to their former image: a line for each, why. nodes: of one backend, members first. Raises Failed.
    """
    refused: dict[str, str] = {}
    for node in nodes:
        if node.name not in booted or topology.primary_of(node.name) in refused:  # the replica could not follow
            continue
        was = node.process.image()
        try:
            remake(node, booted[node.name])
        except DoesNotStart as why:
            others = {other.process.image() for other in nodes if other is not node}
            if node.kind.has(Trait.MEMBERSHIP) and others == {booted[node.name]}:
                node.wipe()
                node.revive()
            else:
                refused[node.name] = str(why)
                remake(node, was)
    return list(refused.values())


def mend(node: Node, cluster: Cluster) -> None:
    """Start a node that ended by itself. A member that was removed from its cluster is wiped, and starts as a new one.
    A learner that has caught up gets its vote.

    If our process is killed during `Node.wipe`, such a member is left: it would end again on its old data.
    """
    ended = node.state() == "stopped"
    learns = bool(node.kind.learners) and not node.ready()
    if node.kind.has(Trait.MEMBERSHIP) and node.wanted() == "running" and (ended or learns):
        others = [other for other in cluster.nodes if other is not node and other.ready()]
        majority = 2 * len(others) > len(cluster.nodes)
        if majority and ended and node.kind.lost_place(others, node.name):
            node.bury()
            node.wipe()
        elif majority and not ended:
            node.kind.promote(others, node.name)
    node.revive()
