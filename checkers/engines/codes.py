"""What kernels are told of operations: columns, and the numbers of kinds, outcomes and reasons as constants."""

from typing import NamedTuple

from checkers.engines.kernel import Column
from checkers.history.history import History
from checkers.row_format import F, Outcome, Reason

ACQUIRE, TRY_ACQUIRE, RENEW, RELEASE = map(int, (F.ACQUIRE, F.TRY_ACQUIRE, F.RENEW, F.RELEASE))
READ, WRITE, CAS = map(int, (F.READ, F.WRITE, F.CAS))
OK, FAIL, INFO = map(int, (Outcome.OK, Outcome.FAIL, Outcome.INFO))
STALE_TOKEN, NOT_OWNER, UNAVAILABLE = map(int, (Reason.STALE_TOKEN, Reason.NOT_OWNER, Reason.UNAVAILABLE))


class Calls(NamedTuple):
    """Columns of a history, in order of invocation."""

    f: Column
    outcome: Column
    reason: Column
    inv: Column  # ns
    ret: Column  # ns
    key: Column
    flags: Column


def calls_of(history: History, rows: Column | slice = slice(None)) -> Calls:
    """The columns of a history that kernels read. rows: only these rows."""
    return Calls(*[history.columns[name][rows] for name in Calls._fields])
