"""The members of an etcd cluster, changed over the JSON gateway.

A member that lost its data may not come back as who it was: it could vote twice. Its place is given to a new one, which
starts on an empty disk and is told that the cluster exists (ETCD_INITIAL_CLUSTER_STATE).
"""

import contextlib
import http.client
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from infra.machine import Failed

REPLACED_WITHIN: Final = 10.0
"""Seconds for both changes; they take 20 ms."""

PATIENCE: Final = 3.0
"""Seconds for one answer: a change that lost its leader is answered late or never."""

_TRY_EVERY: Final = 0.1


def replace_member(others: Sequence[tuple[str, int]], peer: str) -> None:
    """Put a new member, which has yet to be started, in the place of the one whose peers know it by the URL `peer`.

    others: (host, port) of the members that are left. Raises Failed when they do not do it: without a majority they
    cannot. Done twice it is done anew: nothing tells whether one that was added has ever started and voted.
    """
    deadline = time.monotonic() + REPLACED_WITHIN
    while True:
        trouble = []
        for address in others:
            try:
                _replace(address, peer)
            except (OSError, http.client.HTTPException, Failed) as error:
                trouble.append(f"{address[0]}: {error}")
            else:
                return
        if time.monotonic() > deadline:
            raise Failed(f"the member {peer} is not replaced: {'; '.join(trouble)}")
        time.sleep(_TRY_EVERY)


def agreed(address: tuple[str, int]) -> str:
    """The version that all members are up to, as one of them tells it ("3.5.0"): none that is older may join any more.

    Seconds after the last of them has become what it is. Empty where it does not tell.
    """
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    try:
        connection.request("GET", "/version")
        told = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return ""
    finally:
        connection.close()
    return str(told.get("etcdcluster", "")) if isinstance(told, dict) else ""


def lost_place(others: Sequence[tuple[str, int]], peer: str) -> bool:
    """Whether the members that answer agree that nobody has ever started under the URL `peer`.

    So it is once the one who was there was removed, be it that a new one was added, until that starts.
    """
    told = []
    for address in others:
        with contextlib.suppress(OSError, http.client.HTTPException, Failed):
            told.append(_ask(address, "list")["members"])
    started = any(peer in member["peerURLs"] and "name" in member for known in told for member in known)
    return bool(told) and not started


def _replace(address: tuple[str, int], peer: str) -> None:
    there = [member for member in _ask(address, "list")["members"] if peer in member["peerURLs"]]
    for member in there:
        _ask(address, "remove", ID=member["ID"])
    _ask(address, "add", peerURLs=[peer])


def _ask(address: tuple[str, int], verb: str, **what: object) -> Mapping[str, Any]:
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    try:
        connection.request("POST", f"/v3/cluster/member/{verb}", body=json.dumps(what))
        answer = connection.getresponse()
        told: dict[str, Any] = json.loads(answer.read())
    except ValueError as error:
        raise Failed(f"member {verb}: no JSON") from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise Failed(f"member {verb}: {told.get('message', answer.status)}")
    return told
