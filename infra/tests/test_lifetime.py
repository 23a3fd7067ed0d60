"""A process that is asked to end twice while it heals: it heals, and ends without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

HEALS = """
import sys, time
from infra import lifetime
with lifetime.asked_once():
    try:
        print("applied", flush=True)
        time.sleep(60)
    finally:
        print("healing", flush=True)
        assert sys.stdin.readline() == "go on\\n"
        print("healed", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_begins_the_heal_and_the_second_waits(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HEALS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == "applied\n"
        process.send_signal(number)
        assert process.stdout.readline() == "healing\n"
        for again in (number, signal.SIGINT):
            process.send_signal(again)
            assert process.stderr.readline() == "fencepost: healing; it ends when that is done\n"
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "healed\n"
        assert process.wait(10) == 128 + number
        assert process.stderr.read() == ""
