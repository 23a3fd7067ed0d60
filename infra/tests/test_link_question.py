"""A watch notes how long servers were silent. What a question meets on real links is tried in `live`."""

import threading
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from infra.faults import link_question
from infra.faults.link_question import LinkAnswer, Watch

A, S, C = LinkAnswer.ANSWERED, LinkAnswer.SILENT, LinkAnswer.CLOSED


class Script:
    """A server, and the clock: what it answers, and after how many seconds, until the watch ends."""

    def __init__(self, *answers: tuple[LinkAnswer, float]) -> None:
        self.answers = list(answers)
        self.clock = 0.0

    def wait(self, seconds: float) -> bool:
        if self.answers:
            self.clock += seconds
        return not self.answers

    def ask(self, _: str) -> LinkAnswer:
        answer, took = self.answers.pop(0)
        self.clock += took
        return answer


@pytest.mark.parametrize(
    ("script", "silences"),
    [
        ([(A, 0.002)] * 5, []),
        ([(A, 0), (S, 0.25), (S, 0.25), (A, 0), (A, 0)], [(0.2, 1.3)]),
        ([(A, 0), (A, 1.3), (A, 0)], [(0.2, 1.7)]),
        ([(A, 0), (C, 0), (C, 0), (A, 0)], [(0.2, 0.8)]),
        ([(A, 0), (C, 0), (A, 0)], []),
        ([(A, 0), (S, 0.25), (S, 0.25)], [(0.2, 1.1)]),
    ],
    ids=["it answers", "it is silent", "it is slow", "it refuses", "it refuses once", "it is silent to the end"],
)
def test_a_silence_lasts_from_one_answer_to_the_next(
    script: Sequence[tuple[LinkAnswer, float]], silences: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Any = Script(*script)
    monkeypatch.setattr(link_question, "time", SimpleNamespace(monotonic_ns=lambda: int(server.clock * 1e9)))
    watch = Watch(server, ["a:1"])
    watch._over = server
    watch._watch()
    assert [(begin / 1e9, end / 1e9) for begin, end in watch.silences] == [pytest.approx(span) for span in silences]


class Counting:
    """Servers that answer at once; how often each was asked."""

    def __init__(self) -> None:
        self.asked = {"a:1": 0, "b:1": 0}

    def ask(self, endpoint: str) -> LinkAnswer:
        self.asked[endpoint] += 1
        return A


def test_it_asks_all_between_its_begin_and_its_end_and_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_question, "EVERY", 0.001)
    servers: Any = Counting()
    watch = Watch(servers, servers.asked)
    watch.end()
    for _ in range(2):
        before = dict(servers.asked)
        watch.begin()
        deadline = time.monotonic() + 30.0
        while any(servers.asked[endpoint] == count for endpoint, count in before.items()):
            assert time.monotonic() < deadline
            time.sleep(0.002)
        watch.end()
        watch.end()
        assert not [thread for thread in threading.enumerate() if thread.name.endswith("(_watch)")]
