"""What is imported: etcd3's messages, made anew, byte for byte and all of them; little by the client of the store."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

from etcd3 import etcdrpc
from google.protobuf.internal import api_implementation


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
