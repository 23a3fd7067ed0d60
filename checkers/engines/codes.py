"""Numbers of operations, outcomes and reasons as kernels compare them: as constants, not as members of classes."""

from checkers.row_format import F, Outcome, Reason

ACQUIRE, TRY_ACQUIRE, RENEW, RELEASE = map(int, (F.ACQUIRE, F.TRY_ACQUIRE, F.RENEW, F.RELEASE))
READ, WRITE, CAS = map(int, (F.READ, F.WRITE, F.CAS))
OK, FAIL, INFO = map(int, (Outcome.OK, Outcome.FAIL, Outcome.INFO))
STALE_TOKEN, NOT_OWNER, UNAVAILABLE = map(int, (Reason.STALE_TOKEN, Reason.NOT_OWNER, Reason.UNAVAILABLE))
