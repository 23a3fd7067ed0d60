"""etcd3's messages for today's protobuf, built anew from the descriptors in etcd3's generated code.

That code was generated in 2019 and loads with no protobuf after 3.20. On today's Pythons, the messages of protobuf 3.20
are plain Python: they took two fifths of the computing time of a worker on etcd. The descriptors are still valid. So
every import of etcd3 finds these modules here first; they are built as the code that protoc generates today does it.
"""

import ast
import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Final

_MODULES: Final = tuple(f"etcd3.etcdrpc.{name}" for name in ("kv_pb2", "auth_pb2", "rpc_pb2"))
"""Each module needs those before it."""


class _Messages(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Sequence[str] | None, _: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in _MODULES:
            return None
        original = PathFinder.find_spec(fullname, path)
        return None if original is None else ModuleSpec(fullname, self, origin=original.origin)

    def exec_module(self, module: ModuleType) -> None:
        from google.protobuf import descriptor_pool
        from google.protobuf.internal import builder

        spec = module.__spec__
        assert spec is not None, "find_spec has found it"
        for earlier in _MODULES[: _MODULES.index(spec.name)]:
            importlib.import_module(earlier)
        serialized = _descriptor(Path(str(spec.origin)).read_text(encoding="utf-8"))
        descriptor, names = descriptor_pool.Default().AddSerializedFile(serialized), vars(module)
        names["DESCRIPTOR"] = descriptor
        builder.BuildMessageAndEnumDescriptors(descriptor, names)
        builder.BuildTopDescriptorsAndMessages(descriptor, spec.name, names)


def _descriptor(source: str) -> bytes:
    """The file's descriptor, serialized: `DESCRIPTOR = FileDescriptor(..., serialized_pb=_b('...'))`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.keyword) and node.arg == "serialized_pb" and isinstance(node.value, ast.Call):
            return str(ast.literal_eval(node.value.args[0])).encode("latin1")
    raise ImportError("etcd3's generated code has no descriptor")


sys.meta_path.insert(0, _Messages())
