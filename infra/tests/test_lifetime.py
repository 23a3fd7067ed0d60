"""What is imported, by whom and how little; a process that is asked to end twice, and pytest, end in order."""

import ast
import importlib.util
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from etcd3 import etcdrpc
from google.protobuf.internal import api_implementation

from infra import lifetime
from infra.tests.fakes import HANGS_AFTER

HEALS = """
import sys, time
from infra import lifetime
with lifetime.asked_once():
    try:
        print("applied", flush=True)
        time.sleep(600)
    finally:
        print("healing", flush=True)
        assert sys.stdin.readline() == "go on\\n"
        print("healed", flush=True)
"""
# A code whose instructions belong to no line, as some of any judge's do.
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
        assert process.wait(HANGS_AFTER) == 128 + number
        assert process.stderr.read() == ""


def test_a_place_without_a_line_is_given_one() -> None:
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
def test_interrupted_at_such_a_place_pytest_tells_what_it_has(tmp_path: Path, error: str) -> None:
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
    """The bytes follow from rpc.proto and the encoding of Protocol Buffers."""
    compare = etcdrpc.Compare(result=etcdrpc.Compare.EQUAL, target=etcdrpc.Compare.CREATE, key=b"k", create_revision=0)
    put = etcdrpc.RequestOp(request_put=etcdrpc.PutRequest(key=b"k", value=b"v", lease=77))
    get = etcdrpc.RequestOp(request_range=etcdrpc.RangeRequest(key=b"k"))
    sent = etcdrpc.TxnRequest(compare=[compare], success=[put], failure=[get]).SerializeToString()
    assert sent == b"\n\x07\x10\x01\x1a\x01k(\x00\x12\n\x12\x08\n\x01k\x12\x01v\x18M\x1a\x05\n\x03\n\x01k"
    assert etcdrpc.TxnRequest.FromString(sent).success[0].request_put.lease == 77
    assert etcdrpc.LeaseKeepAliveRequest(ID=9).SerializeToString() == b"\x08\t"


def test_all_messages_of_the_generated_code_are_there_and_not_in_plain_python() -> None:
    package = importlib.util.find_spec("etcd3")
    assert package is not None
    source = Path(str(package.origin)).parent / "etcdrpc" / "rpc_pb2.py"
    nodes = [node for node in ast.parse(source.read_text()).body if isinstance(node, ast.Assign)]
    made = [ast.unparse(node.targets[0]) for node in nodes if "GeneratedProtocolMessageType" in ast.unparse(node.value)]
    assert len(made) > 80
    assert [name for name in made if not hasattr(etcdrpc, name)] == []
    assert api_implementation.Type() != "python"


def test_whoever_imports_etcd3_has_them() -> None:
    """A lock of the user's own, too: all that a worker does before it is loaded is to import the worker."""
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
