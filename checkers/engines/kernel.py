"""One source for each check: plain Python on small histories, the same text compiled by numba on large ones.

numba comes with the package's extra `fast`. Without numba every kernel is plain, and answers the same. Compiling takes
seconds; compiled kernels are kept on disk (`checkers.engines.kernel_cache`). A history on which plain Python is faster
never waits for the compiler: below `SMALL` rows a kernel is always plain, below `LARGE` rows it is plain until its
compiled form is in memory, and from `LARGE` rows on it is compiled.

A kernel is a function over one-dimensional arrays of integers, numbers, and named tuples of these (and of such tuples),
written in what numba compiles:

- It indexes its arrays and asks for their ``len``, nothing else: in plain Python they are lists, which are faster.
- It writes only to arrays that it, or the kernel that called it, made with ``np.empty``, ``np.zeros`` or ``np.full``
  and a type (int64, bool_, or a smaller integer to save memory); arrays that are passed in from outside are read only.
- It returns arrays, slices of them, numbers, or a tuple of those, named or not.
- What grows, or has to be sorted, it may keep in a list of integers or of tuples of integers. A list begins as
  ``[(0, 0)][:0]``, so that numba knows the type of its elements. Only kernels pass lists to one another.
- It calls other kernels by their global names, and never itself. All other globals are ``np``, ``heapq``, classes of
  named tuples, and numbers, which become constants. It has no comprehensions: their globals would be missed.
- It converts numbers with ``int(...)`` before it passes them to a kernel that is called in many places: numba compiles
  that kernel again for each combination of types.
- Where it reads a column of a named tuple for every row, it takes the column out once, before its loop.
- Its integers fit into 64 bits: compiled integers wrap around. The difference of unsigned 32-bit numbers is unsigned:
  convert them with ``np.int64(...)`` first.
"""

import hashlib
import importlib
import marshal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property, update_wrapper
from operator import attrgetter
from types import FunctionType, ModuleType
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt

from checkers.engines.gc_pause import uncollected
from checkers.engines.kernel_cache import compiled

SMALL: Final = 5_000
LARGE: Final = 200_000
"""Rows. Importing numba and loading a kernel take as long as plain Python needs for about so many rows."""

Column = npt.NDArray[Any]  # an array of integers or truth values

P = ParamSpec("P")
R = TypeVar("R")

_forced: bool | None = None
_slowed = False


@cache
def compiler() -> Any:
    """The module numba; None if numba is not installed, or is set to compile nothing (NUMBA_DISABLE_JIT)."""
    try:
        with uncollected():
            numba = importlib.import_module("numba")
    except ImportError:
        return None
    return None if numba.config.DISABLE_JIT else numba


def slowed() -> bool:
    """Whether some kernel ran in plain Python, for lack of numba, on so many rows that numba would have been used."""
    return _slowed


@contextmanager
def always(*, compiled: bool) -> Iterator[None]:
    """For tests and benches: every kernel is compiled, in all threads, or none. Raises RuntimeError without numba."""
    global _forced
    if compiled and compiler() is None:
        raise RuntimeError("kernels are compiled by numba, which is missing: pip install 'fencepost[fast]'")
    before, _forced = _forced, compiled
    try:
        yield
    finally:
        _forced = before


class Kernel(Generic[P, R]):
    """A function in a plain and a compiled form; a kernel is called like the function that it was made of.

    Callers from outside pass and receive NumPy arrays, whichever form runs. A kernel takes no keyword arguments.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        assert isinstance(function, FunctionType)
        self.function = function
        update_wrapper(self, function)
        self._compiled: dict[str, Callable[..., Any]] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.sized(max(map(_length, args), default=0), *args, **kwargs)

    def sized(self, rows: int, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the form for so many rows; for kernels whose arrays do not tell how much there is to do."""
        assert not kwargs, "kernels take no keyword arguments"
        if rows >= SMALL if _forced is None else _forced:
            frozen = [_frozen(a) for a in args]
            form = self._compiled_form(rows, frozen)
            if form is not None:
                return cast(R, form(*frozen))
        return cast(R, _arrays(self.plain_form(*map(_lists, args))))

    @property
    def fast(self) -> bool:
        """Whether the compiled form costs no waiting: it is in memory, or asked for by `always`."""
        return bool(self._compiled) if _forced is None else _forced

    @cached_property
    def plain_form(self) -> FunctionType:
        """The function over lists, which calls the plain forms of other kernels."""
        return self._with_globals({"np": _Lists}, attrgetter("plain_form"))

    def nopython_form(self) -> FunctionType:
        """The function for numba; it calls the `callee` forms of other kernels."""
        return self._with_globals({}, attrgetter("callee"))

    @cached_property
    def callee(self) -> Any:
        """The form of this kernel that other compiled kernels call; it is compiled and kept together with them."""
        return compiler().njit(nogil=True)(self.nopython_form())

    def uses(self) -> dict[str, Any]:
        """Global name → value, for all globals that the function refers to."""
        # `co_names` also holds the names of attributes, and functions that are no kernels may have the same names.
        used = {name: self.function.__globals__.get(name) for name in self.function.__code__.co_names}
        kinds = Kernel, int, float, type, ModuleType
        return {name: value for name, value in used.items() if isinstance(value, kinds)}

    def digest(self) -> str:
        """A hash of what the compiled form is made from: the function's code, as it was imported, and its globals."""
        # Later formats of marshal write equal objects differently if they are referred to more or less often.
        hasher = hashlib.blake2b(marshal.dumps(self.function.__code__, 2), digest_size=8)
        for name, value in sorted(self.uses().items()):
            about = value.digest() if isinstance(value, Kernel) else f"{value!r}{getattr(value, '_fields', '')}"
            hasher.update(f"{name} {about} ".encode())
        return hasher.hexdigest()

    def _compiled_form(self, rows: int, frozen: list[Any]) -> Callable[..., Any] | None:
        """None if the form is not in memory, and cannot be had or would cost more time than plain Python."""
        global _slowed
        signature = ",".join(map(_signature, frozen))
        if signature not in self._compiled and (_forced or rows >= LARGE):
            numba = compiler()
            if numba is None:
                _slowed = True
                return None
            self._compiled[signature] = compiled(numba, self.nopython_form(), self.digest(), signature, frozen)
        return self._compiled.get(signature)

    def _with_globals(self, other: dict[str, Any], form: Callable[["Kernel[..., Any]"], Any]) -> FunctionType:
        function, used = self.function, self.uses()
        scope = {name: form(value) if isinstance(value, Kernel) else value for name, value in used.items()}
        scope |= {name: value for name, value in other.items() if name in used}
        scope |= {name: function.__globals__[name] for name in ("__name__", "__builtins__")}
        return FunctionType(function.__code__, scope, function.__name__, function.__defaults__)


kernel = Kernel  # decorates a function as described in the module


@kernel
def no_rows(count: int) -> Column:
    """For so many things one row number each, at first -1: none."""
    return np.full(count, -1, np.int32)


class _Lists:
    """The part of NumPy that kernels use, over lists."""

    int64 = int32 = int16 = int8 = uint32 = uint16 = uint8 = staticmethod(int)
    bool_ = staticmethod(bool)

    @staticmethod
    def empty(length: int, kind: type[int]) -> list[int]:
        return [kind()] * length

    zeros = empty

    @staticmethod
    def full(length: int, value: int, kind: type[int]) -> list[int]:
        return [kind(value)] * length


def _length(argument: Any) -> int:
    """The number of rows; of a named tuple that of its longest column."""
    if isinstance(argument, (np.ndarray, list)):
        return len(argument)
    return max(map(_length, argument), default=0) if isinstance(argument, tuple) else 0


def _frozen(argument: Any) -> Any:
    """The argument in the only form of its kind that kernels are compiled for: any other would mean compiling anew."""
    if isinstance(argument, tuple):
        return type(argument)(*map(_frozen, argument))
    if isinstance(argument, (np.ndarray, list)):
        array = np.require(argument, None if isinstance(argument, np.ndarray) else np.int64, ("C", "A")).view()
        array.flags.writeable = False
        return array
    if isinstance(argument, (bool, np.bool_)):
        return bool(argument)
    return int(argument)


def _signature(argument: Any) -> str:
    """The type of an argument from `_frozen`; of a named tuple with its field names, as their order may change."""
    if isinstance(argument, tuple):
        names = argument._fields  # type: ignore[attr-defined]
        fields = ",".join(f"{name}:{_signature(part)}" for name, part in zip(names, argument, strict=True))
        return f"{type(argument).__name__}({fields})"
    return argument.dtype.str if isinstance(argument, np.ndarray) else type(argument).__name__


def _lists(argument: Any) -> Any:
    """The argument as the plain form takes it."""
    if isinstance(argument, np.ndarray):
        return argument.tolist()
    return type(argument)(*map(_lists, argument)) if isinstance(argument, tuple) else argument


def _arrays(result: Any) -> Any:
    """The result of the plain form, in the form in which the compiled one returns it."""
    if isinstance(result, tuple):
        parts = map(_arrays, result)
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    if isinstance(result, list):
        return np.array(result, np.bool_ if result and isinstance(result[0], bool) else np.int64)
    return result
