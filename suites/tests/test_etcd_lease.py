"""A lease of etcd between two threads: one keeps it alive, the other gives it up."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any, cast

import pytest

from checkers.row_format import Reason
from suites.lock import Indeterminate, LockError, Refused
from suites.locks.etcd_key import EtcdKey
from suites.locks.etcd_requests import Endpoints
from suites.locks.etcd_session import Leases
from suites.locks.etcd_v3lock import post
from suites.tests.bench import SOON


class Etcd:
    """Grants leases 1, 2 ...; `meanwhile` happens while a keep-alive is under way, which finds that `left` is left."""

    def __init__(self) -> None:
        self.given, self.left = 0, 2
        self.meanwhile: Callable[[], object] = lambda: None

    def call(self, _: object) -> Any:
        self.given += 1
        return SimpleNamespace(id=self.given, ttl=2)

    def keep_alive(self, _: int) -> int:
        self.meanwhile()
        return self.left


@pytest.fixture
def etcd() -> Etcd:
    return Etcd()


@pytest.fixture
def leases(etcd: Etcd) -> Leases:
    made = Leases(cast(Endpoints, etcd), 2)
    made.open()
    return made


def test_a_lease_given_up_meanwhile_tells_nothing(etcd: Etcd, leases: Leases) -> None:
    etcd.left, etcd.meanwhile = 0, lambda: leases.give_up(1)
    with pytest.raises(Indeterminate, match="lease 0x1 was given up meanwhile"):
        leases.keep_alive(1)


def test_a_lease_that_is_gone_or_given_up_is_refused(etcd: Etcd, leases: Leases) -> None:
    etcd.left = 0
    with pytest.raises(Refused, match="lease 0x1 is gone") as refusal:
        leases.keep_alive(1)
    assert refusal.value.reason is Reason.NOT_OWNER
    assert leases.present is None
    assert leases.open().id == 2
    assert leases.give_up(2)
    assert not leases.give_up(2)
    assert leases.open().id == 3
    with pytest.raises(Refused, match="lease 0x2 is gone"):
        leases.keep_alive(2)
    assert leases.open().id == 3


class Put(EtcdKey):
    """Whose key is put, while its lease needs a sign of life before anything may be granted."""

    def _put(self, key: str, lease_id: int) -> tuple[bool, int]:
        present = self._leases.present
        assert present is not None
        self._leases.present = replace(present, alive=0)
        return True, 7


@pytest.mark.parametrize(
    ("refused", "told"),
    [(Reason.UNAVAILABLE, Indeterminate), (Reason.NOT_OWNER, Refused)],
    ids=["never-sent", "lease-gone"],
)
def test_no_key_is_left_on_a_live_lease(etcd: Etcd, leases: Leases, refused: Reason, told: type[Exception]) -> None:
    """The request for a sign of life was never sent: that says nothing of the one before it, which took the lock."""

    def refuse() -> None:
        raise Refused(refused, "failed to connect to all addresses")

    etcd.meanwhile = refuse
    with pytest.raises(told, match="failed to connect"):
        Put(cast(Endpoints, etcd), leases).acquire("a", 1.0)
    assert leases.present is None


@pytest.mark.parametrize(
    ("error", "session"), [(Refused(Reason.NOT_OWNER), 1), (Refused(Reason.UNAVAILABLE), 0), (Indeterminate("lost"), 0)]
)
def test_an_acquire_that_failed_names_the_lease_that_is_over(leases: Leases, error: LockError, session: int) -> None:
    leases.failed(1, error)
    assert getattr(error, "session", 0) == session
    assert leases.present is None


class Gateway(BaseHTTPRequestHandler):
    """Answers as the JSON gateway of etcd 3.5 does where a lease is gone."""

    def do_POST(self) -> None:
        body = json.dumps({"error": "etcdserver: requested lease not found", "code": 2}).encode()
        self.send_response(500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_the_gateway_of_a_lock_without_its_lease_refuses() -> None:
    with HTTPServer(("127.0.0.1", 0), Gateway) as server:
        threading.Thread(target=server.handle_request).start()
        with pytest.raises(Refused, match="requested lease not found") as refusal:
            post(f"127.0.0.1:{server.server_port}", "/v3/lock/lock", {}, SOON)
    assert refusal.value.reason is Reason.NOT_OWNER
