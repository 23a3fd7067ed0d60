"""Compiled kernels on disk: one file for each kernel and signature.

numba's own cache is not used: it notices no change in a function that the cached one calls, and its index, which
several processes rewrite, may name code that belongs to another signature or to the source as it was before. Here a
file's name says what is in it: a digest over the bytecode and constants of the kernel and of all kernels that it
calls. Files are put in place whole, by renaming, and carry a checksum, and nothing is ever looked up in two steps.

They stand where Python's own compiled files do, or in the user's cache directory where that cannot be written to.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import pickle
import platform
import re
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import EnumMeta
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from checkers.garbage import uncollected

if TYPE_CHECKING:
    from checkers.engines.kernel import Kernel

VERSION: Final = 1
"""Of what is in the files; part of every digest."""

UNREADABLE: Final = (ValueError, TypeError, AttributeError, ImportError, EOFError, pickle.UnpicklingError)
"""What reading a damaged file can raise, or one that names what this numba does not have."""


def compiled(kernel: Kernel[..., Any], signature: str) -> Callable[..., Any]:
    """The compiled form for arguments of this signature: from disk, or compiled at the first call and put there."""
    store = _Store(kernel, signature)
    return _entry(store) or _dispatcher(kernel, store)


def loaded(kernel: Kernel[..., Any], signature: str) -> Callable[..., Any] | None:
    """The same where it need not be compiled, else None. Where there is no file, numba is not even imported."""
    store = _Store(kernel, signature)
    return _entry(store) if store.present() else None


def digest(kernel: Kernel[..., Any]) -> str:
    """Of all that the compiled form of a kernel depends on but the versions of Python and numba."""
    hasher = hashlib.blake2b(b"%d" % VERSION, digest_size=12)
    for part in _parts(kernel):
        hasher.update(part.encode() + b"\0")
    return hasher.hexdigest()


def _parts(kernel: Kernel[..., Any]) -> Iterator[str]:
    from checkers.engines.kernel import Kernel

    yield from _code_parts(kernel.function.__code__)
    yield repr(kernel.function.__defaults__)
    for name, value in sorted(kernel.uses().items()):
        yield name
        if isinstance(value, Kernel):
            yield digest(value)
        elif isinstance(value, ModuleType):
            yield value.__name__
        elif isinstance(value, EnumMeta):
            yield repr(list(value))
        elif isinstance(value, (bool, int, float, str, tuple)):
            yield repr(value)
        else:
            yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _code_parts(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_argcount))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant)
        else:
            yield repr(constant)


class _Store:
    """The file of one kernel and signature."""

    def __init__(self, kernel: Kernel[..., Any], signature: str) -> None:
        code = kernel.function.__code__
        source = Path(code.co_filename)
        name = re.sub(r"\W", "_", code.co_qualname)
        about = hashlib.blake2b(f"{signature} {platform.machine()}".encode(), digest_size=6).hexdigest()
        self._family = f"{source.stem}.{name}.{sys.implementation.cache_tag}"
        self._fresh = f"{self._family}.{digest(kernel)}"
        self._name = f"{self._fresh}.{about}.kernel"
        self._directories = list(_directories(source))
        self._payload: Any = None

    def present(self) -> bool:
        """Whether there is a file, perhaps of another version of numba."""
        return any((directory / self._name).is_file() for directory in self._directories)

    def payload(self) -> Any:
        """What `write` was given; None where nothing fits this numba and processor, or it is damaged."""
        if self._payload is None:
            for directory in self._directories:
                with suppress(OSError, *UNREADABLE):
                    checksum, about, data = (directory / self._name).read_bytes().split(b"\n", 2)
                    if checksum == _checksum(about, data) and about == _about():
                        self._payload = pickle.loads(data)
                        break
        return self._payload

    def write(self, data: bytes) -> None:
        """Into the first directory that takes it; a disk that takes nothing only means compiling again."""
        about = _about()
        for directory in self._directories:
            with suppress(OSError):
                directory.mkdir(parents=True, exist_ok=True)
                partial = directory / f"{self._name}.{os.getpid()}.{secrets.token_hex(4)}"
                try:
                    partial.write_bytes(b"\n".join((_checksum(about, data), about, data)))
                    partial.replace(directory / self._name)
                except OSError:
                    partial.unlink(missing_ok=True)
                    raise
                self._remove_stale(directory)
                return

    def _remove_stale(self, directory: Path) -> None:
        for path in directory.glob(f"{self._family}.*.kernel"):
            if not path.name.startswith(f"{self._fresh}."):
                path.unlink(missing_ok=True)


def _directories(source: Path) -> Iterator[Path]:
    """Where files may stand: what NUMBA_CACHE_DIR says, beside the module, in the user's cache."""
    place = hashlib.blake2b(str(source.parent.absolute()).encode(), digest_size=6).hexdigest()
    wanted = os.environ.get("NUMBA_CACHE_DIR")
    if wanted:
        yield Path(wanted, place)
    yield Path(importlib.util.cache_from_source(str(source))).parent
    with suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "fencepost", place)


def _checksum(about: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(about + b"\n" + data, digest_size=16).hexdigest().encode()


@cache
def _about() -> bytes:
    """Versions and processor that compiled code belongs to, in one line."""
    numba = _numba()
    magic = numba.core.registry.cpu_target.target_context.codegen().magic_tuple()
    versions = numba.__version__, importlib.import_module("llvmlite").__version__
    return repr((versions, magic)).encode().replace(b"\n", b" ")


def _entry(store: _Store) -> Callable[..., Any] | None:
    """What is on disk, ready to be called; None where it has to be compiled.

    Machine code needs numba's runtime, but nothing of what numba makes ready before it compiles, which takes longer
    than to check a million operations.
    """
    payload = store.payload()
    numba = _numba()
    if payload is None or numba.config.DISABLE_JIT:
        return None
    core = numba.core
    context = core.registry.cpu_target.target_context
    with core.compiler_lock.global_compiler_lock, suppress(*UNREADABLE):
        core.runtime.rtsys.initialize(context)
        entry: Callable[..., Any] = core.compiler.CompileResult._rebuild(context, *payload).entry_point
        return entry
    return None


def _dispatcher(kernel: Kernel[..., Any], store: _Store) -> Callable[..., Any]:
    """Compiles at the first call, and writes down what came of it."""
    numba = _numba()
    base: Any = numba.core.caching._Cache

    class OneFile(base):  # type: ignore[misc]
        """numba's interface of a cache, for a single entry that is not there yet."""

        @property
        def cache_path(self) -> None:
            return None

        def load_overload(self, _signature: Any, _target_context: Any) -> None:
            return None

        def save_overload(self, _signature: Any, data: Any) -> None:
            if not data.library.has_dynamic_globals:
                store.write(numba.core.serialize.dumps(data._reduce()))

        def enable(self) -> None:
            pass

        disable = flush = enable

    dispatcher = numba.njit(nogil=True)(kernel.nopython_form())
    if not numba.config.DISABLE_JIT:
        dispatcher._cache = OneFile()
    compiled_form: Callable[..., Any] = dispatcher
    return compiled_form


@cache
def _numba() -> Any:
    with uncollected():
        return importlib.import_module("numba")
