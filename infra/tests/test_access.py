"""What is secret comes from the environment, is shown to nobody, and goes to those who need it."""

import json
import socket
import ssl
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from infra.access import OPEN, Access, BadAccess

SECRET = "p/ss'w%rd"
VARIABLES = {"FENCEPOST_REDIS_USER": "ann", "FENCEPOST_REDIS_PASSWORD": SECRET}


def test_user_and_password_are_taken_from_the_variables_of_the_backend_and_given_to_workers_as_they_are() -> None:
    access = Access.of("redis", {**VARIABLES, "FENCEPOST_ETCD_PASSWORD": "other"}, tls=False)
    assert (access.user, access.password, access.open) == ("ann", SECRET, False)
    assert Access.of("zookeeper", VARIABLES, tls=False) == OPEN
    assert SECRET not in repr(access)
    named = replace(access, names={"10.0.0.1:1": "a.example"})
    assert Access.from_json(json.loads(json.dumps(asdict(named)))) == named


@pytest.mark.parametrize("told", ["AUTH ann {}", "redis://ann:p%2Fss%27w%25rd@host", 'wrong password "p/ss\\\'w%rd"'])
def test_a_text_is_told_without_the_password(told: str) -> None:
    masked = Access("ann", SECRET).masked(told.format(SECRET))
    assert "***" in masked
    assert "w%" not in masked
    assert OPEN.masked(told) == told


@pytest.mark.parametrize(
    ("given", "tls", "says"),
    [
        ({"FENCEPOST_REDIS_USER": "ann"}, False, "FENCEPOST_REDIS_PASSWORD is not"),
        ({"FENCEPOST_REDIS_CA": "/ca.pem"}, False, "FENCEPOST_REDIS_CA is set, but .* tls://"),
        ({"FENCEPOST_REDIS_CA": "/nowhere/ca.pem"}, True, "FENCEPOST_REDIS_CA: /nowhere/ca.pem: No such file"),
        ({"FENCEPOST_REDIS_CERT": "/cert.pem"}, True, "FENCEPOST_REDIS_KEY is not"),
        ({"FENCEPOST_REDIS_CA": __file__}, True, "FENCEPOST_REDIS_CA: no usable PEM files"),
        ({"FENCEPOST_ETCD_PASSWORD": SECRET}, False, "FENCEPOST_ETCD_USER is not"),
    ],
)
def test_contradicting_variables_are_named(given: dict[str, str], tls: bool, says: str) -> None:
    [backend] = {name.split("_")[1].lower() for name in given}
    with pytest.raises(BadAccess, match=says):
        Access.of(backend, given, tls=tls, password_alone=backend == "redis")


@pytest.mark.parametrize(
    ("endpoint", "name"), [("10.77.0.2:20101", "a.example"), ("b.example:1", "b.example"), ("[::1]:1", "::1")]
)
def test_a_server_behind_a_proxy_keeps_its_name(endpoint: str, name: str) -> None:
    assert Access(tls=True, names={"10.77.0.2:20101": "a.example"}).name_of(endpoint) == name


def test_a_connection_that_cannot_be_encrypted_is_closed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        access = Access(tls=True)
        server.settimeout(5)
        with pytest.raises((ssl.SSLError, TimeoutError)):
            access.connect(f"{host}:{port}", 0.2)
        accepted, _ = server.accept()
        with accepted:
            accepted.settimeout(5)
            while accepted.recv(4096):
                pass
