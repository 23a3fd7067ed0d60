"""etcd: members that agree by raft, with leases and keep-alives, asked over the JSON gateway.

A member that lost its data must not come back under its old identity: it could vote twice. A new member takes its
place. That one starts on an empty disk and is told that the cluster exists (ETCD_INITIAL_CLUSTER_STATE). In shape
learner it is a learner at first, which copies what the others hold, does not vote, and refuses clients.
"""

import base64
import contextlib
import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from infra.access import TLS
from infra.backends.answers import NO_ANSWER, WRITES, Health, Held, ServerRefused, Write
from infra.backends.backend import Backend, Package, Server, Shape, Trait
from infra.backends.conversation import PATIENCE, converse, digest, unexpected
from infra.backends.messages import EtcdMessages
from infra.errors import Failed

REPLACED_WITHIN: Final = 10.0
"""Seconds for both changes of a replacement; they take 20 ms."""
CHANGED_WITHIN: Final = 3.0
"""Seconds for the answer to one change. A change that loses its leader is answered late or never."""
MAINTAINED_WITHIN: Final = 20.0
"""Seconds for a compaction, or a defragmentation: neither answers while its disk stalls."""
HANDED_OVER_WITHIN: Final = 20.0
"""Seconds for the answer to a change of leaders."""

_TRY_EVERY: Final = 0.1
_NO_SPACE: Final = "NOSPACE"  # the alarm under which members refuse writes that take room


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


_KEY: Final = _base64("fencepost-disk")
_ALL_WRITES: Final = {"key": _base64(WRITES), "range_end": _base64(f"{WRITES}\x7f")}  # all keys of `WRITES`, as a range
_FIRST: Final = base64.b64encode(b"\0").decode()  # the lowest key; as the end of a range it stands for no end


class Etcd(Backend):
    name = "etcd"
    prefix = "etcd"
    hosts = (*range(35, 59, 8), 91, 99)
    shapes: ClassVar[Mapping[str, Shape]] = {"three": Shape(3), "five": Shape(5), "learner": Shape(3, learners=1)}
    port = 2379
    messages = EtcdMessages
    peer_ports: ClassVar[Mapping[str, int]] = {"peer": 2380}
    packages = (
        Package(
            "etcd", "etcd-server", {"trixie": "3.5", "bookworm": "3.4"},
            elsewhere={"modules": "go.etcd.io/etcd/server/v3"},
        ),
    )  # fmt: skip
    plants: ClassVar[Mapping[str, str]] = {
        "expired-grant": "a lease is granted for three times as long as it lasts",
        "late-expiry": "a lease lasts for three times as long as it is granted for",
        "ignored-compare": "every fifth transaction for a key that was never created is done though it was",
        "lost-deletion": "every fifth deletion in a transaction is answered as done, and the key is there",
        "leaked-lease": "a key that is put under a lease stays when the lease is over",
        "slow": "every piece of a request waits for 10 ms before the server sees it",
    }
    traits = frozenset(
        {
            Trait.LEADER, Trait.PEERS, Trait.PARTS, Trait.SPLITS, Trait.HANDS_OVER, Trait.MEMBERSHIP,
            Trait.COMMON_VERSION, Trait.WAITING_LEASES, Trait.STALL_DEPOSES, Trait.ENDS_WHEN_FULL,
            Trait.REFUSES_WRITES, Trait.MAINTAINED,
        }
    )  # fmt: skip
    lacks: ClassVar[Mapping[Trait, str]] = {
        Trait.REPLICA: "its members agree on a write before it is acknowledged: none is behind",
        Trait.SESSION_PROCESSES: "only PostgreSQL has a process for each session",
        Trait.WALL_CLOCK: (
            "leases expire by the monotonic clock, and Go asks the kernel for the time, past every library"
        ),
    }
    pace = 0.08
    call = 4.0
    election = 1.0
    fatal = rb'"level":"(?:fatal|panic)".*?"msg":"([^"]*)"|.*(?:panic: | [CFE] \| )(.*)'
    question = b"GET /version HTTP/1.0\r\n\r\n"

    def probe(self, server: Server) -> Health | None:
        """None also when the member knows no leader, or is a learner."""
        try:
            status = _ask(server, "/v3/maintenance/status", {}, PATIENCE)
        except NO_ANSWER:
            return None
        leader = status.get("leader", "0")
        if leader == "0" or status.get("isLearner"):
            return None
        return Health(
            status["version"],
            term=int(status["raftTerm"]),
            me=status["header"]["member_id"],
            leader=leader,
            refuses=any(_NO_SPACE in error for error in status.get("errors", ())),
        )

    def leader(self, healths: Sequence[Health | None]) -> int | None:
        """The member that a majority says it follows."""
        known = [(index, health) for index, health in enumerate(healths) if health]
        for index, health in known:
            followers = [other for _, other in known if (other.leader, other.term) == (health.me, health.term)]
            if 2 * len(followers) > len(healths):
                return index
        return None

    def whole(self, healths: Sequence[Health | None], auxiliaries: Sequence[Health | None] = ()) -> bool:
        followed = {(health.leader, health.term) for health in healths if health}
        return super().whole(healths, auxiliaries) and len(followed) == 1

    def long_question(self, size: int) -> bytes:
        return b"GET /version HTTP/1.0\r\nX-Padding: " + b"x" * size + b"\r\n\r\n"

    def keep(self, server: Server, size: int, patience: float) -> None:
        """Puts a key under a lease of 2 s, and revokes the lease."""
        lease = _ask(server, "/v3/lease/grant", {"TTL": 2}, patience)["ID"]
        value = base64.b64encode(b"x" * size).decode()
        _ask(server, "/v3/kv/put", {"key": _KEY, "value": value, "lease": lease}, patience)
        _ask(server, "/v3/lease/revoke", {"ID": lease}, patience)

    def held(self, server: Server, wanted: Callable[[str], bool], since: int = 0) -> Held:
        """Makes one linearizable read, which a member answers from its own store when it has caught up."""
        everything = {"key": _FIRST, "range_end": _FIRST}
        reply = _ask(server, "/v3/kv/range", everything, CHANGED_WITHIN)
        entries = []
        for each in reply.get("kvs", ()):
            name = base64.b64decode(each["key"]).decode(errors="replace")
            if wanted(name):
                created, changed, lease = (
                    int(each.get(number, 0)) for number in ("create_revision", "mod_revision", "lease")
                )
                entries.append((name, created, changed, lease, digest(each.get("value"))))
        revision, whole = int(reply["header"]["revision"]), ""
        if since > revision:  # the read waited for all changes, so those are missing
            whole = f"nothing beyond change {revision}"
        elif since:
            import grpc  # type: ignore[import-untyped]
            from etcd3 import etcdrpc

            try:  # the gateway of 3.4 has only a digest of a member's file, which depends on more than changes
                with grpc.insecure_channel(server.endpoint) as channel:
                    question = etcdrpc.HashKVRequest(revision=since)
                    hashed = etcdrpc.MaintenanceStub(channel).HashKV(question, timeout=CHANGED_WITHIN)
            except grpc.RpcError as error:
                raise ServerRefused(str(error.details())) from error
            whole = f"{hashed.hash} since {hashed.compact_revision}"
        return Held(revision, revision, entries, whole)

    @contextlib.contextmanager
    def writing(self, server: Server, patience: float) -> Iterator[Write]:
        """Creates a key only if none of the existing keys was changed, so that servers have many keys to look at."""
        connection = http.client.HTTPConnection(server.endpoint, timeout=patience)
        unchanged = {**_ALL_WRITES, "target": "VERSION", "result": "LESS", "version": 2}

        def write(verb: str, name: str) -> bool:
            key = _base64(WRITES + name)
            if verb == "remove":
                return int(_over(connection, "/v3/kv/deleterange", {"key": key}).get("deleted", 0)) > 0
            put = {"request_put": {"key": key, "value": key}}
            reply = _over(connection, "/v3/kv/txn", {"compare": [unchanged], "success": [put]})
            if not reply.get("succeeded"):
                raise ServerRefused("a key was changed")
            return True

        try:
            yield write
        finally:
            connection.close()

    def written(self, server: Server) -> frozenset[str]:
        """Makes one linearizable read, as `held` does."""
        reply = _ask(server, "/v3/kv/range", {**_ALL_WRITES, "keys_only": True}, CHANGED_WITHIN)
        return frozenset(base64.b64decode(each["key"]).decode().removeprefix(WRITES) for each in reply.get("kvs", ()))

    def hand_over(self, leader: Server, successor: Health) -> None:
        """The old leader stays a member."""
        with contextlib.suppress(*NO_ANSWER):
            _ask(leader, "/v3/maintenance/transfer-leadership", {"targetID": successor.me}, HANDED_OVER_WITHIN)

    def refuse_writes(self, server: Server, *, refuse: bool) -> None:
        """Uses the alarm that a member raises when its database has grown to its quota. It binds all members."""
        try:
            me = _ask(server, "/v3/maintenance/status", {}, PATIENCE)["header"]["member_id"]
            alarm = {"action": "ACTIVATE" if refuse else "DEACTIVATE", "memberID": me, "alarm": _NO_SPACE}
            _ask(server, "/v3/maintenance/alarm", alarm, CHANGED_WITHIN)
        except NO_ANSWER as error:
            raise Failed(f"{server.name}: the alarm {_NO_SPACE}: {error}") from error

    def maintain(self, server: Server) -> str:
        """Compacts the history of all members up to now, and rewrites the file of this member."""
        status = _ask(server, "/v3/maintenance/status", {}, PATIENCE)
        revision = int(status["header"]["revision"])
        with contextlib.suppress(ServerRefused):  # if another member was asked for it already
            _ask(server, "/v3/kv/compaction", {"revision": revision, "physical": True}, MAINTAINED_WITHIN)
        _ask(server, "/v3/maintenance/defragment", {}, MAINTAINED_WITHIN)
        try:
            _ask(server, "/v3/kv/range", {"key": _KEY, "revision": 1}, CHANGED_WITHIN)
        except ServerRefused as error:
            if "compacted" in str(error):
                return f"compacted up to {revision}, file of {int(status['dbSize']) // 1024} kB defragmented"
        raise Failed(f"{server.name} was told to compact its history, and keeps it")

    def agreed_version(self, server: Server) -> str:
        """The agreed version changes seconds after the last member was replaced."""
        with contextlib.suppress(*NO_ANSWER):
            return str(_ask(server, "/version", None, CHANGED_WITHIN).get("etcdcluster", ""))
        return ""

    def peer_url(self, member: str) -> str:
        """The URL by which the other members know this one."""
        return f"http://{member}:{self.peer_ports['peer'] + self.known.index(member) + 1}"

    def replace_member(self, others: Sequence[Server], member: str) -> None:
        """A second call replaces the member anew: nothing tells whether the added member has ever started and voted."""
        deadline, peer = time.monotonic() + REPLACED_WITHIN, self.peer_url(member)
        while True:
            trouble = []
            for server in others:
                try:
                    for there in _change(server, "list")["members"]:
                        if peer in there["peerURLs"]:
                            _change(server, "remove", ID=there["ID"])
                    _change(server, "add", peerURLs=[peer], isLearner=bool(self.learners))
                except NO_ANSWER as error:
                    trouble.append(f"{server.endpoint.rpartition(':')[0]}: {error}")
                else:
                    return
            if time.monotonic() > deadline:
                raise Failed(f"the member {peer} is not replaced: {'; '.join(trouble)}")
            time.sleep(_TRY_EVERY)

    def lost_place(self, others: Sequence[Server], member: str) -> bool:
        """True from the removal of the old member until a new one in its place has started."""
        views, peer = [], self.peer_url(member)
        for server in others:
            with contextlib.suppress(*NO_ANSWER):
                views.append(_change(server, "list")["members"])
        started = any(peer in known["peerURLs"] and "name" in known for members in views for known in members)
        return bool(views) and not started

    def promote(self, others: Sequence[Server], member: str) -> None:
        with contextlib.suppress(*NO_ANSWER):
            for there in _change(others[0], "list")["members"]:
                if self.peer_url(member) in there["peerURLs"] and there.get("isLearner"):
                    _change(others[0], "promote", ID=there["ID"])

    def refusal(self, server: Server) -> str:
        body = b"{}"
        question = (
            b"POST /v3/maintenance/status HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
            % (server.endpoint.encode(), len(body), body)
        )
        reply = converse(server, question, explain=True)
        if "HTTP request to an HTTPS server" in reply:
            return f"it speaks TLS: put {TLS} before the first host"
        if '"isLearner":true' in reply:
            return "it is a learner, which serves no clients"
        return "it knows no leader" if reply.startswith("HTTP/1.1 200") else unexpected(reply, server.access)


def _change(server: Server, verb: str, **what: object) -> Mapping[str, Any]:
    """Change or list the members. Raises one of NO_ANSWER."""
    try:
        return _ask(server, f"/v3/cluster/member/{verb}", what, CHANGED_WITHIN)
    except ServerRefused as error:
        raise ServerRefused(f"member {verb}: {error}") from error


def _ask(server: Server, path: str, what: Mapping[str, object] | None, patience: float) -> Mapping[str, Any]:
    """POST `what` (GET if it is None) and return the answer. Raises one of NO_ANSWER."""
    connection = http.client.HTTPConnection(server.endpoint, timeout=patience)
    try:
        if server.access.tls:
            connection.sock = server.access.connect(server.endpoint, patience)
        return _over(connection, path, what)
    finally:
        connection.close()


def _over(connection: http.client.HTTPConnection, path: str, what: Mapping[str, object] | None) -> Mapping[str, Any]:
    """See `_ask`."""
    connection.request("GET" if what is None else "POST", path, None if what is None else json.dumps(what))
    answer = connection.getresponse()
    try:
        reply = json.loads(answer.read())
    except ValueError as error:
        raise ServerRefused("no JSON") from error
    if not isinstance(reply, dict):
        raise ServerRefused("no JSON object")
    if answer.status != http.client.OK:
        raise ServerRefused(str(reply.get("message", answer.status)))
    return reply
