"""The API of Toxiproxy, through toxiproxy-python, with what that package leaves out.

Added: a time limit on every request, errors on every status that is not success, the update of a toxic, all proxies
in one request, proxies made anew, and a look at the result after every change. The package keeps the server's address
in a class, which allows one server per process, so every `Api` here has a subclass of its own.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

import requests
from toxiproxy.api import APIConsumer
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from infra.errors import Failed, succeeds
from infra.network.topology import Proxy
from infra.network.toxics import Toxic

TIMEOUT: Final = 5.0
"""Seconds for one request (measured: 2 ms)."""
SLOWEST: Final = 25.0
"""Seconds to remove a toxic: Toxiproxy waits 5 s for each piece that it cannot deliver, and pieces are few."""


@dataclass(frozen=True, slots=True)
class ProxyChange:
    """A change of a proxy: switch it on or off, lead it elsewhere, remove some toxics, add some.

    None for `enabled` or `upstream` leaves that as it is.
    """

    proxy: str
    enabled: bool | None = None
    remove: tuple[str, ...] = ()
    add: tuple[Toxic, ...] = ()
    # Whether the proxy is first deleted and created again, which ends its connections and removes all its toxics.
    anew: bool = False
    upstream: str | None = None  # `host:port`; a new one closes the proxy's live connections


@dataclass(frozen=True, slots=True)
class ProxyState:
    """A proxy as the server tells it."""

    name: str
    listen: str
    upstream: str
    enabled: bool
    toxics: Mapping[str, Toxic] = field(default_factory=dict)


class Api:
    """One Toxiproxy. Safe to call from several threads."""

    def __init__(self, endpoint: str) -> None:
        """endpoint: `host:port`. Does not connect."""
        host, _, port = endpoint.rpartition(":")
        self._server: type[APIConsumer] = type("Server", (APIConsumer,), {"host": host, "port": port})
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="toxiproxy")

    def answers(self) -> bool:
        return succeeds(lambda: self._ask("get", "/version", timeout=1.0))

    def populate(self, proxies: Iterable[Proxy]) -> None:
        """Create the proxies that are missing; those that exist stay as they are. Raises Failed."""
        wanted = list(proxies)
        have = self.state()
        missing = [
            {"name": proxy.name, "listen": proxy.listen, "upstream": proxy.upstream, "enabled": True}
            for proxy in wanted
            if proxy.name not in have
        ]
        if missing:
            self._ask("post", "/populate", json=missing)
        if absent := {proxy.name for proxy in wanted} - self.state().keys():
            raise Failed(f"toxiproxy did not create {', '.join(sorted(absent))}")

    def have(self, proxies: Iterable[Proxy]) -> None:
        """Have exactly these proxies; those that exist and are the same stay as they are. Raises Failed."""
        wanted = {proxy.name: proxy for proxy in proxies}
        others = [
            name
            for name, there in self.state().items()
            if name not in wanted or (wanted[name].upstream, _port(wanted[name])) != (there.upstream, _port(there))
        ]
        list(self._pool.map(lambda name: self._ask("delete", f"/proxies/{name}"), others))
        self.populate(wanted.values())

    def state(self) -> dict[str, ProxyState]:
        """Every proxy by name, with its toxics. Raises Failed."""
        return {name: _parse(fields) for name, fields in self._ask("get", "/proxies").json().items()}

    def apply(self, changes: Iterable[ProxyChange]) -> None:
        """Make the changes, in parallel, and prove that the server lists their result. Raises Failed.

        Idempotent: a proxy that is as wanted already is left alone, and its connections live on.
        """
        changes = list(changes)
        before = self.state()
        if unknown := [change.proxy for change in changes if change.proxy not in before]:
            raise Failed(f"toxiproxy has no proxy {', '.join(unknown)}: was it restarted?")
        list(self._pool.map(lambda change: self._make(change, before[change.proxy]), changes))
        after = self.state()
        if wrong := [change.proxy for change in changes if not _is_so(change, after[change.proxy])]:
            raise Failed(f"toxiproxy accepted a change of {', '.join(wrong)} but does not show it")

    def close(self) -> None:
        """End our threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _make(self, change: ProxyChange, now: ProxyState) -> None:
        path = f"/proxies/{change.proxy}"
        if change.anew:
            self._ask("delete", path)
            body = {"name": now.name, "listen": now.listen, "upstream": now.upstream, "enabled": False}
            self._ask("post", "/proxies", json=body)
            now = ProxyState(now.name, now.listen, now.upstream, enabled=False)
        for name in change.remove:
            if name in now.toxics:
                self._ask("delete", f"{path}/toxics/{name}", timeout=SLOWEST)
        for toxic in change.add:
            there = None if toxic.name in change.remove else now.toxics.get(toxic.name)
            if there == toxic:
                continue
            if there and (there.type, there.stream) == (toxic.type, toxic.stream):
                self._ask("post", f"{path}/toxics/{toxic.name}", json={"attributes": dict(toxic.attributes)})
                continue
            if there:
                self._ask("delete", f"{path}/toxics/{toxic.name}", timeout=SLOWEST)
            self._ask("post", f"{path}/toxics", json=asdict(toxic))
        if change.upstream not in (None, now.upstream):
            self._ask("post", path, json={"upstream": change.upstream})
        if change.enabled is not None and change.enabled != now.enabled:
            # The proxy may be dialling an address that is gone; then the answer comes when that dial has failed.
            self._ask("post", path, json={"enabled": change.enabled}, timeout=SLOWEST)

    def _ask(
        self, verb: Literal["get", "post", "delete"], path: str, *, json: object = None, timeout: float = TIMEOUT
    ) -> requests.Response:
        """One request. Raises Failed unless the server says that it was done."""
        call: Callable[..., requests.Response] = getattr(self._server, verb)
        options = {"json": json} if json is not None else {}
        try:
            # Never through the user's http_proxy: the address is valid only on this machine.
            answer = call(path, timeout=timeout, proxies={"http": None}, **options)
            answer.raise_for_status()
        except requests.ReadTimeout as error:
            raise Failed(f"toxiproxy: {verb} {path}: no answer within {timeout:.0f} s") from error
        except (requests.RequestException, ProxyExists, NotFound, InvalidToxic) as error:
            raise Failed(f"toxiproxy: {verb} {path}: {error}") from error
        return answer


def _is_so(change: ProxyChange, now: ProxyState) -> bool:
    added = {toxic.name: toxic for toxic in change.add}
    return (
        change.enabled in (None, now.enabled)
        and change.upstream in (None, now.upstream)
        and not (set(change.remove) - added.keys()) & now.toxics.keys()
        and all(now.toxics.get(name) == toxic for name, toxic in added.items())
    )


def _port(proxy: Proxy | ProxyState) -> str:
    """The port that a proxy listens on. The server lists the address of the host, not its name."""
    return proxy.listen.rpartition(":")[2]


def _parse(fields: Mapping[str, Any]) -> ProxyState:
    toxics = {
        toxic["name"]: Toxic(toxic["name"], toxic["type"], toxic["stream"], dict(toxic["attributes"]))
        for toxic in fields["toxics"]
    }
    return ProxyState(fields["name"], fields["listen"], fields["upstream"], fields["enabled"], toxics)
