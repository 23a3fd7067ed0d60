"""The numbers of kinds, outcomes and reasons, as constants for kernels."""

from checkers.row_format import F, Outcome, Reason

ACQUIRE, TRY_ACQUIRE, RELEASE = map(int, (F.ACQUIRE, F.TRY_ACQUIRE, F.RELEASE))
F_READ, F_WRITE, F_CAS = map(int, (F.READ, F.WRITE, F.CAS))
OK, FAIL, INFO = map(int, (Outcome.OK, Outcome.FAIL, Outcome.INFO))
STALE_TOKEN, NOT_OWNER = int(Reason.STALE_TOKEN), int(Reason.NOT_OWNER)
