"""One source for each check: plain Python on small histories, the same text compiled by numba on large ones.

Compiling takes seconds and is remembered on disk, beside the module. A history that plain Python is done with sooner
is never made to wait for it: below `SMALL` rows a kernel is always plain, from `LARGE` on it is compiled whatever that
takes, and between the two it is compiled if that was done before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

SMALL: Final = 5_000
LARGE: Final = 200_000


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function over one-dimensional arrays and numbers. To be written: see the contract."""
    return function
