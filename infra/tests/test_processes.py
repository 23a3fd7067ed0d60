"""Processes: which of them we may hit, which own an environment, how they end when asked, and what they import."""

import ast
import importlib.util
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CalledProcessError
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from docker.errors import APIError, NotFound
from etcd3 import etcdrpc
from google.protobuf.internal import api_implementation

from checkers.tests.build import cases, there
from infra import lifetime
from infra.__main__ import main
from infra.cluster import frozen
from infra.docker import compose, machine, owner, reaper
from infra.docker.subnets import Taken
from infra.errors import Failed, UnknownName
from infra.faults import manual
from infra.faults.plan import compile_plan
from infra.faults.target import Aim
from infra.tests.fakes import HANGS_AFTER

FREEZE, KILL = Aim("between-read-and-write", "freeze"), Aim("after-acquire", "kill")
Sent = list[tuple[int, int]]  # (process, signal) of each signal that would have been sent


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def sent() -> Iterator[Sent]:
    sent: Sent = []
    with pytest.MonkeyPatch.context() as patch:  # the patch is undone before the sleeper ends
        patch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
        yield sent


class TestWhoMayBeHit:
    @pytest.mark.parametrize("text", ["-1", "0", "1", "-4711", "+7", "4711.0", "all", ""])
    def test_only_a_process_number_is_accepted(self, text: str, sent: Sent, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["fault", "freeze-holder", "redis", f"--pid={text}"]) == 2
        assert f"must be the number of your client's process, not {text!r}" in capsys.readouterr().err
        assert sent == []

    def test_this_command_and_its_parent_may_not_be_hit(self, sent: Sent) -> None:
        living = {pid for pid in (os.getpid(), os.getppid(), os.getpgrp()) if Path(f"/proc/{pid}").exists()}
        for pid in living - {0, 1}:  # the leader of our process group may have ended
            with pytest.raises(UnknownName, match=f"process {pid} is this command, or runs it"):
                manual.pid(str(pid))
        assert {number for _, number in sent} <= {0}

    def test_the_grandparent_of_the_command_may_not_be_hit(self) -> None:
        code = f"from infra.faults import manual; manual.pid('{os.getpid()}')"
        run = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)"
        done = subprocess.run([sys.executable, "-c", run, code], check=False, capture_output=True, text=True)
        assert f"process {os.getpid()} is this command, or runs it" in done.stderr

    def test_a_living_process_may_be_hit(self, sleeper: subprocess.Popen[bytes]) -> None:
        assert manual.pid(str(sleeper.pid)) == sleeper.pid
        sleeper.kill()
        sleeper.wait()
        with pytest.raises(UnknownName, match=f"there is no process {sleeper.pid}"):
            manual.pid(str(sleeper.pid))
        with pytest.raises(UnknownName, match="there is no process 9999999999999999999"):
            manual.pid("9999999999999999999")

    def test_a_process_that_we_may_not_signal_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "kill", Mock(side_effect=PermissionError))
        with pytest.raises(UnknownName, match="process 4711 is not ours to signal"):
            manual.pid("4711")


class TestOneProcess:
    def test_the_process_is_frozen_noted_and_thawed(self, sleeper: subprocess.Popen[bytes], sent: Sent) -> None:
        actors = manual.OneProcess(sleeper.pid, 1.0, "env")
        actors.arm("by hand", FREEZE)
        actors.let_go("another fault")
        assert len(list(frozen._noted("env"))) == 1
        actors.let_go(FREEZE.by)
        assert (sent, frozen._noted("env")) == ([(sleeper.pid, signal.SIGSTOP), (sleeper.pid, signal.SIGCONT)], [])

    def test_a_later_process_with_the_same_number_is_not_hit(
        self, sleeper: subprocess.Popen[bytes], sent: Sent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        actors = manual.OneProcess(sleeper.pid, 1.0, "env")
        monkeypatch.setattr(owner, "_started", lambda _: "another time")
        with pytest.raises(Failed, match=f"process {sleeper.pid} has ended"):
            actors.arm("by hand", KILL)
        assert sent == []


class TestWhatCanBeDone:
    def check(self, fault: str, backend: str, *, movable: bool) -> None:
        cluster = SimpleNamespace(nodes=[SimpleNamespace(process=SimpleNamespace(has_clock=lambda: movable))])
        environment = SimpleNamespace(name="env", clusters={"redis": cluster}, cluster=lambda _: cluster)
        manual._check_possible(compile_plan([fault], 1, backend, 1.0), cast("Any", environment))

    def test_the_clocks_of_an_image_of_the_user_s_own_cannot_be_moved(self) -> None:
        self.check("clock-jump-back", "redis", movable=True)
        self.check("kill-server", "redis", movable=False)
        with pytest.raises(UnknownName, match=r"clock-jump-back does not apply to redis: .* an image of your own"):
            self.check("clock-jump-back", "redis", movable=False)

    def test_the_error_for_a_missing_backend_names_the_command_that_starts_it(self) -> None:
        with pytest.raises(UnknownName, match=r"etcd does not run in env; python -m infra up etcd --env env$"):
            self.check("kill-server", "etcd", movable=True)


class TestFrozen:
    def test_a_heal_finds_and_thaws_the_frozen_process(self, sleeper: subprocess.Popen[bytes]) -> None:
        manual.OneProcess(sleeper.pid, 1.0, "env").arm("by hand", FREEZE)
        os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED)
        assert frozen.active("env") == [f"process {sleeper.pid} is frozen"]
        frozen.note("env.b", sleeper.pid)
        assert frozen.active("en") == frozen.active("another") == []
        frozen.thaw("another")
        frozen.thaw("env")
        os.waitid(os.P_PID, sleeper.pid, os.WCONTINUED)
        frozen.thaw("env")
        assert frozen.active("env") == []

    def test_a_running_process_and_a_process_with_a_reused_number_are_left_alone(
        self, sleeper: subprocess.Popen[bytes], sent: Sent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        frozen.note("env", sleeper.pid)
        assert frozen.active("env") == []
        monkeypatch.setattr(owner, "_started", lambda _: "another time")
        assert frozen.active("env") == []
        frozen.thaw("env")
        assert (sent, frozen._noted("env")) == ([], [])


class TestOwner:
    def test_we_live_and_a_child_that_ended_is_dead(self) -> None:
        assert not owner.is_dead(owner.this_process())
        assert owner.describe(owner.this_process(), dead=False) == f"process {os.getpid()}"
        code = "from infra.docker import owner; print(owner.this_process())"
        label = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
        assert owner.is_dead(label)
        assert owner.describe(label, dead=True).endswith("which is gone")

    @cases(
        "part, value, dead",
        (4, "1", True),  # our process number with another start time: the number was given to another process
        (1, "another-boot", True),
        (0, "another-machine", False),
        (2, "another-container", False),
    )
    def test_an_owner_is_dead_only_if_that_is_certain(self, part: int, value: str, dead: bool) -> None:
        label = owner.this_process().split("/")
        label[part] = value
        assert owner.is_dead("/".join(label)) is dead

    @pytest.mark.parametrize("label", [owner.KEPT, "", "by somebody", "a/b/c/d/e", "a/b/c/d/e/f", f"a/{'c' * 64}"])
    def test_an_owner_label_that_names_no_process_is_not_dead(self, label: str) -> None:
        assert not reaper._is_dead(cast("Any", None), label)

    @cases("runs, dead", (True, False), (False, True), (None, True))
    def test_the_engine_says_if_an_owner_in_its_container_is_dead(self, runs: bool | None, dead: bool) -> None:
        client = Mock()
        client.api.inspect_container.side_effect = [NotFound("") if runs is None else {"State": {"Running": runs}}]
        assert reaper._is_dead(client, owner.this_process("c" * 64).replace(owner._boot(), "another-boot")) is dead


@pytest.mark.parametrize(
    ("age", "trouble", "tried"),
    [(3600, "network n has active endpoints", False), (1, "network n has active endpoints", True), (3600, "no", True)],
)
def test_old_stuck_networks_are_skipped(monkeypatch: pytest.MonkeyPatch, age: float, trouble: str, tried: bool) -> None:
    refuse = Mock(side_effect=APIError("403", explanation=trouble))
    made = (datetime.now(UTC) - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.123456789Z")
    network = {"Id": "n", "Created": made, "Labels": {reaper.ENV: "fp-1", reaper.OWNER: "gone"}}
    nothing: dict[str, Any] = {"containers": lambda **_: [], "volumes": lambda **_: {"Volumes": None}}
    api = SimpleNamespace(**nothing, networks=lambda **_: [network], remove_network=refuse)
    monkeypatch.setattr(owner, "is_dead", lambda _: True)
    monkeypatch.setattr(reaper, "_await_orphan", lambda _: None)
    removed: list[str] = []
    monkeypatch.setattr(reaper, "remove", lambda _, name: removed.append(name))
    said: list[str] = []
    with machine.heard_by(said.append):
        assert reaper.reap(cast("Any", SimpleNamespace(api=api))) == removed == (["fp-1"] if tried else [])
    assert len(said) == tried


@cases(
    "said, another",
    ("failed to create network: Pool overlaps with other one on this address space", True),
    ("Error response from daemon: network fp-1-abcd_n-zk2 not found", True),
    ("Error response from daemon: No such image: fencepost/redis:nowhere", False),
    ("write /var/lib/docker: no space left on device", False),
)
def test_a_failed_start_says_if_a_new_subnet_helps(said: str, another: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = Mock(side_effect=CalledProcessError(1, "docker compose", stderr=said.encode()))
    monkeypatch.setattr("infra.docker.compose.DockerCompose.start", fails)
    with pytest.raises(Failed) as caught:
        compose.up(compose.ComposeSettings("fp-1-abcd", 3, "kept", "", {}), ["store"])
    assert isinstance(caught.value, Taken) is another


HEALS = """
import select, sys
from infra import lifetime, waiting
with lifetime.asked_once():
    try:
        print("applied", flush=True)
        waiting.Clock().sleep(600)
    finally:
        print("healing", flush=True)
        while not select.select([sys.stdin], [], [], 0.01)[0]: pass  # no signal gets lost just before a call that waits
        assert sys.stdin.readline() == "go on\\n"
        print("healed", flush=True)
"""
# A function whose instructions belong to no line. Some instructions of every judge belong to none.
NO_LINE = """
def judge(error, cause=None):
    raise error from cause

code = judge.__code__
units = len(code.co_code) // 2
table = b"".join(bytes([0xF8 | min(units - done, 8) - 1]) for done in range(0, units, 8))
judge.__code__ = code.replace(co_linetable=table)
"""
ROOT = Path(__file__).parents[2]

RUN = """
from types import SimpleNamespace
from results.run import Run
from suites.selection.upgrade_stages import ONLY
from suites.terminal import Terminal

def pytest_sessionstart(session):
    config = session.config
    config.pluginmanager.register(Terminal(config, SimpleNamespace(stages=ONLY), Run.create(config.rootpath, {})))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_begins_the_heal_and_later_signals_wait(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HEALS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        stdin, stdout, stderr = map(there, (process.stdin, process.stdout, process.stderr))
        assert stdout.readline() == "applied\n"
        process.send_signal(number)
        assert stdout.readline() == "healing\n"
        for again in (number, signal.SIGINT):
            process.send_signal(again)
            assert stderr.readline() == "fencepost: healing; it ends when that is done\n"
        stdin.write("go on\n")
        stdin.flush()
        assert stdout.readline() == "healed\n"
        assert process.wait(HANGS_AFTER) == 128 + number
        assert stderr.read() == ""


def test_a_traceback_entry_without_a_line_number_is_given_one() -> None:
    space: dict[str, Any] = {}
    exec(NO_LINE, space)
    before, error = ValueError("before"), KeyboardInterrupt("now")
    with pytest.raises(ValueError, match="before"):
        space["judge"](before)
    with pytest.raises(KeyboardInterrupt):
        space["judge"](error, before)
    assert [_lines(one)[-1] for one in (before, error)] == [None, None]
    lifetime.printable(error)
    assert [(len(_lines(one)), _lines(one)[-1]) for one in (before, error)] == [(2, 2)] * 2  # `judge` begins in line 2


def _lines(error: BaseException) -> list[int | None]:
    return [line for _, line in traceback.walk_tb(error.__traceback__)]


@pytest.mark.parametrize("error", ['KeyboardInterrupt("now")', 'pytest.exit.Exception("now", 2)'])
def test_pytest_shows_partial_results_when_interrupted_at_a_place_without_a_line(tmp_path: Path, error: str) -> None:
    (tmp_path / "opened.py").write_text(RUN)
    (tmp_path / "test_it.py").write_text(f"import pytest\n{NO_LINE}\ndef test_it():\n    judge({error})\n")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "opened", "-p", "no:cacheprovider"]
    command += ["-c", "/dev/null", f"--rootdir={tmp_path}", "-q", str(tmp_path)]
    path = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=path, capture_output=True, text=True, timeout=HANGS_AFTER)
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout + done.stderr
    assert "interrupted: what follows is only a part" in done.stdout
    assert "= result =" in done.stdout
    assert "Traceback" not in done.stderr


def test_messages_are_those_of_the_protocol() -> None:
    compare = etcdrpc.Compare(result=etcdrpc.Compare.EQUAL, target=etcdrpc.Compare.CREATE, key=b"k", create_revision=0)
    put = etcdrpc.RequestOp(request_put=etcdrpc.PutRequest(key=b"k", value=b"v", lease=77))
    get = etcdrpc.RequestOp(request_range=etcdrpc.RangeRequest(key=b"k"))
    sent = etcdrpc.TxnRequest(compare=[compare], success=[put], failure=[get]).SerializeToString()
    assert sent == b"\n\x07\x10\x01\x1a\x01k(\x00\x12\n\x12\x08\n\x01k\x12\x01v\x18M\x1a\x05\n\x03\n\x01k"
    assert etcdrpc.TxnRequest.FromString(sent).success[0].request_put.lease == 77
    assert etcdrpc.LeaseKeepAliveRequest(ID=9).SerializeToString() == b"\x08\t"


def test_every_generated_message_exists_and_protobuf_is_not_plain_python() -> None:
    source = Path(str(there(importlib.util.find_spec("etcd3")).origin)).parent / "etcdrpc" / "rpc_pb2.py"
    nodes = [node for node in ast.parse(source.read_text()).body if isinstance(node, ast.Assign)]
    made = [ast.unparse(node.targets[0]) for node in nodes if "GeneratedProtocolMessageType" in ast.unparse(node.value)]
    assert len(made) > 80
    assert [name for name in made if not hasattr(etcdrpc, name)] == []
    assert api_implementation.Type() != "python"


def test_etcd3_has_its_messages_when_only_the_worker_was_imported_before() -> None:
    """A user's own lock has the messages, too: before it is loaded, only the worker is imported."""
    code = "import suites.worker.worker, etcd3; print(etcd3.etcdrpc.PutRequest(key=b'k'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == 'key: "k"\n\n'


def test_the_client_of_the_store_imports_psycopg_and_the_standard_library_only() -> None:
    code = (
        "import sys; before = set(sys.modules); import infra.store.store; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(*(new - sys.stdlib_module_names), sep='\\n')"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in answer.stdout.split() if not name.startswith("_")}
    assert loaded <= {"infra", "psycopg", "psycopg_binary", "typing_extensions", "cython_runtime"}
