"""Links that work badly, and faults that come and go by themselves, on real clusters."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING

from infra.faults.all_faults import FAULTS
from infra.faults.link_question import LinkAnswer
from infra.tests.environments import on
from infra.tests.live.hurting import ELECTING, Redis, done, names

if TYPE_CHECKING:
    from infra.faults.target import Target
    from infra.own_environment import OwnEnvironment


def _quickest(target: Target, size: int = 0) -> float:
    """The seconds that a question takes, the least of three by each link to the first node."""
    links = [endpoint for (_, node), endpoint in target.endpoints.items() if node == names(target)[0]]
    answers = [target.prober.timed(endpoint, 5.0, size) for endpoint in links * 3]
    assert {answer for answer, _ in answers} == {LinkAnswer.ANSWERED}
    return min(seconds for _, seconds in answers)


@on("redis", "etcd")
def test_links_are_slow(target: Target) -> None:
    with done(target, "slow-links", latency_ms=60, jitter_ms=5):
        lines = [line for line in target.links.active() if "slow by 60 ± 5 ms" in line]
        assert len(lines) == len(target.endpoints) + (3 if target.backend in ELECTING else 0)
        assert (during := _quickest(target)) >= 0.11
        assert target.cluster.ready()
    assert _quickest(target) < during


@on("redis")
def test_links_are_narrow(target: Target) -> None:
    with done(target, "throttle-links", rate_kb=20):
        assert (during := _quickest(target, 6000)) >= 0.3
        assert _quickest(target, 1) < during  # what is short is quick
        assert target.cluster.ready()
    assert _quickest(target, 6000) < during


@on("redis")
def test_answers_come_in_pieces(target: Target) -> None:
    line = Redis(target.endpoints["c1", "redis2"])
    line.ask("SET long " + "x" * 400)
    with done(target, "slice-links", bytes=50, pause_us=20_000):
        assert len(line.ask("GET long") or b"") <= 50
        began = time.monotonic()
        rest = 0
        while rest < 300:
            rest += len(line.listen() or b"")
        assert time.monotonic() - began >= 0.08
    assert len(Redis(target.endpoints["c1", "redis2"]).ask("GET long") or b"") > 400


@on("redis")
def test_the_server_learns_late_that_a_client_is_gone(environment: OwnEnvironment, target: Target) -> None:
    watch = Redis(environment.direct("redis")[0])

    def there(patience: float) -> bool:
        """Whether it is still there after so many seconds."""
        return not target.clock.wait(patience, lambda: b"lingers" not in (watch.ask("CLIENT LIST") or b""))

    for late, lingers in ((True, True), (False, False)):
        with done(target, "slow-close", late_ms=600) if late else nullcontext():
            line = Redis(target.endpoints["c1", "redis1"])
            line.ask("CLIENT SETNAME lingers")
            line.socket.close()
            assert there(0.4) is lingers
            assert not there(3.0)


@on("postgres")
def test_a_client_learns_late_that_its_connection_has_ended(target: Target) -> None:
    endpoint = next(iter(target.endpoints.values()))
    with done(target, "slow-close", late_ms=500):
        answer, took = target.prober.timed_end(endpoint, 5.0)
        assert answer is LinkAnswer.ANSWERED
        assert took >= 0.4
    assert min(target.prober.timed_end(endpoint, 5.0)[1] for _ in range(3)) < took


@on("redis")
def test_who_asks_all_the_time_is_reset_in_the_middle(environment: OwnEnvironment, target: Target) -> None:
    """In that moment a request may be lost, or its reply: counted by the server and not by its client."""
    counted = ended = 0
    with ThreadPoolExecutor(1) as pool:
        injection = FAULTS["reset-connections"].make(target.backend, {"times": 3})
        going_on = pool.submit(injection.apply, target)
        while not going_on.done():
            try:
                line = Redis(target.endpoints["c1", "redis1"])
                while line.ask("INCR counted") and not going_on.done():
                    counted += 1
            except OSError:
                continue
            finally:
                ended += 1
        injection.heal(target)
        assert len(going_on.result()) == 3
    assert ended >= 3
    assert counted > 10
    done_by_server = int((Redis(environment.direct("redis")[0]).ask("INCR counted") or b"")[1:]) - 1
    assert counted <= done_by_server <= counted + ended
    assert Redis(target.endpoints["c1", "redis1"]).ask("PING") == b"+PONG\r\n"
