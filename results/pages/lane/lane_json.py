"""A lane's operations as JSON, for the script that draws and describes them on the page.

Each column has an entry for each row of the history, in the same order. Times are whole microseconds. A column of
differences has the difference to the last entry that is not null; if a number is too large for an exact difference, the
column has the numbers themselves, as texts.

code        index into `codes`: kind, outcome, reason and flags.
inv         from the invocation of the row before, of the first from the origin.
lasted      from invocation to completion; -1: never completed.
process     process number.
key         index of the lock; the column is missing where there is but one.
token       differences; null: none.
value       differences; what was read or written, or the job that was done.
base        differences.
error       index into `errors`; 0: none.

The columns of `holds` have an entry for each grant: the row of its acquire, how long it was held, the time from the
grant to the earliest end of its lease (null: no lease), and 1 if neither a release nor a notice of loss is known.
"""

from collections import Counter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from checkers.history.history import History
from checkers.history.view import View
from checkers.row_format import INFINITY, NONE, F, Outcome
from results.text import cut

TICK: Final = 1000
"""ns of a microsecond."""
MOST_ERRORS: Final = 400
"""The most distinct error texts. The rarer ones share one text."""
LONGEST_ERROR: Final = 400
_RARER: Final = "one of many texts; the history's file has it"
_EXACT: Final = 2**52
"""A double holds the difference of two smaller numbers exactly."""


def columns(view: View) -> dict[str, Any]:
    history, holds, origin = view.history, view.holds.columns, view.zero
    c = history.columns
    inv, ret = (c["inv"] - origin) // TICK, (c["ret"] - origin) // TICK
    parts = np.stack([c[name] for name in ("f", "outcome", "reason", "flags")], axis=1)
    codes, code = np.unique(parts.view(np.uint32).ravel(), return_inverse=True)
    valued = np.isin(c["f"], (F.WRITE, F.EFFECT)) | ((c["f"] == F.READ) & (c["outcome"] == Outcome.OK))
    errors, error = _errors(history)
    grant = ret[holds.row]
    lease = ((holds.expiry - origin) // TICK - grant).tolist()
    return {
        "columns": {
            "code": code.tolist(),
            "inv": np.diff(inv, prepend=0).tolist(),
            "lasted": np.where(c["ret"] == 0, -1, np.maximum(ret - inv, 0)).tolist(),
            "process": c["process"].tolist(),
            **({"key": c["key"].tolist()} if len(history.facts.keys) > 1 else {}),
            "token": _differences(c["token"], c["token"] != NONE),
            "value": _differences(c["value"], valued & (c["value"] != NONE)),
            "base": _differences(c["base"], (c["f"] == F.WRITE) & (c["base"] != NONE)),
            "error": error,
        },
        "holds": {
            "row": holds.row.tolist(),
            "held": ((holds.left - origin) // TICK - grant).tolist(),
            "lease": [None if end == INFINITY else left for left, end in zip(lease, holds.expiry, strict=True)],
            "open": holds.open.astype(int).tolist(),
        },
        "codes": codes.view(np.uint8).reshape(-1, 4).tolist(),
        "errors": errors,
    }


def _differences(column: npt.NDArray[np.int64], present: npt.NDArray[np.bool_]) -> list[int | str | None]:
    entries = column[present]
    exact = ((entries > -_EXACT) & (entries < _EXACT)).all()
    whole = np.full(len(column), None, np.object_)
    whole[present] = np.diff(entries, prepend=0) if exact else [str(entry) for entry in entries]
    return whole.tolist()


def _errors(history: History) -> tuple[list[str], list[int]]:
    """The distinct texts, first the empty one, then by frequency; and the index of each operation's text."""
    texts = [cut(text, LONGEST_ERROR, "…") for text in history.errors]
    indexes = history.columns["error"].tolist()
    often = Counter(texts[index] for index in indexes if texts[index])
    known = ["", *(text for text, _ in often.most_common(MOST_ERRORS))]
    if len(often) > MOST_ERRORS:
        known.append(_RARER)
    places = {text: place for place, text in enumerate(known)}
    return known, [places.get(texts[index], len(known) - 1) for index in indexes]
