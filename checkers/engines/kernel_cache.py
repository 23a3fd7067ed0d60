"""Compiled kernels on disk, in numba's own cache, and the one folder that is trusted with them.

Loading compiled code means running it, and numba unpickles it on the way, so it is trusted as Python's `.pyc` files
are. Compiled code is therefore loaded only from a folder of ours that nobody but this user and root can enter or
replace. Nothing that comes from a run folder, from a user's file or from the network is ever unpickled.

numba keeps an index for each function, and every process that compiles the function rewrites it. If two processes
compile the function at once for different types or processors, the index can name the wrong code. Here the name of a
function says what it was compiled from, and for which types and which processor. So each index has a single entry, and
processes that compile the same at once write files that serve all of them.
"""

import hashlib
import importlib
import os
import pickle
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Final

UNREADABLE: Final = (
    *(OSError, ValueError, TypeError, AttributeError, LookupError, ImportError, EOFError, RuntimeError),
    pickle.UnpicklingError,
)
"""What loading a damaged file, or writing to a full disk, can raise."""


def compiled(
    numba: Any, function: FunctionType, source: str, signature: str, arguments: Sequence[object]
) -> Callable[..., Any]:
    """The compiled form for arguments of these types: loaded, or compiled and, where that is possible, kept.

    source: differs if the code of the function, or of something that it calls, differs. signature: differs if arguments
    are of other types, or named tuples have other fields.
    """
    types = tuple(map(numba.typeof, arguments))
    family = f"{function.__name__}-"
    fresh = f"{family}{source}-"
    # The function gets another name wherever the same source has to be compiled again.
    processor = numba.core.registry.cpu_target.target_context.codegen().magic_tuple()
    target = signature, types, processor, (numba.__version__, importlib.import_module("llvmlite").__version__)
    function.__qualname__ = f"{fresh}{hashlib.blake2b(repr(target).encode(), digest_size=8).hexdigest()}"
    dispatcher = _cached(numba, function)
    if dispatcher is not None:
        folder, module = Path(dispatcher.stats.cache_path), Path(function.__code__.co_filename).stem
        try:
            entry: Callable[..., Any] = dispatcher.compile(types)
            if dispatcher.stats.cache_misses:
                _remove(folder, f"{module}.{family}*", spared=f"{module}.{fresh}")
            return entry
        except UNREADABLE:
            _remove(folder, f"{module}.{fresh}*")
    in_memory: Callable[..., Any] = numba.njit(nogil=True)(function).compile(types)
    return in_memory


def _cached(numba: Any, function: FunctionType) -> Any:
    """A dispatcher that compiles the function or loads it from a trusted folder; else None, and a note on stderr."""
    try:
        trusted = _folder()
        numba.config.CACHE_DIR = str(trusted)
        dispatcher = numba.njit(nogil=True, cache=True)(function)
        inside = trusted in Path(dispatcher.stats.cache_path).parents  # numba takes another if it cannot write
        why = exposed(trusted) if inside else f"{trusted} takes no files"
    except (OSError, RuntimeError) as error:
        why = str(error)
    else:
        if not why:
            return dispatcher
    _explain(why)
    return None


def _folder() -> Path:
    """The folder for compiled code, made if it is missing. Raises OSError or RuntimeError."""
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base, "fencepost", "kernels")
    if not folder.is_absolute():
        raise RuntimeError(f"{base} is not an absolute path")
    for part in (*reversed(folder.parents), folder):
        part.mkdir(mode=0o700, exist_ok=True)
    return folder.resolve()


def exposed(folder: Path) -> str:
    """Why users other than this one and root can enter or replace a real folder; "" if they cannot. Raises OSError."""
    if folder.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return f"{folder} is open to other users (its mode has to be 0700)"
    for path in (folder, *folder.parents):
        facts = path.stat()
        if facts.st_uid and facts.st_uid != os.geteuid():
            return f"{path} belongs to another user"
        if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not facts.st_mode & stat.S_ISVTX:
            return f"{path} can be written to by other users"
    return ""


@cache
def _explain(why: str) -> None:
    print(f"fencepost: compiled checks are not kept for the next time: {why}", file=sys.stderr)


def _remove(folder: Path, pattern: str, *, spared: str = "\0") -> None:
    """Removes the files that match the pattern, but for those whose names begin with `spared`."""
    for path in folder.glob(pattern):
        if not path.name.startswith(spared):
            with suppress(OSError):
                path.unlink()
