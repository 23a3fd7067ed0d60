"""Numbers of operations, outcomes and reasons as kernels compare them: as constants, not as members of classes."""

from typing import Final

from checkers.row_format import F, Outcome, Reason

ACQUIRE: Final = int(F.ACQUIRE)
TRY_ACQUIRE: Final = int(F.TRY_ACQUIRE)
RENEW: Final = int(F.RENEW)
RELEASE: Final = int(F.RELEASE)
READ: Final = int(F.READ)
WRITE: Final = int(F.WRITE)
CAS: Final = int(F.CAS)

OK: Final = int(Outcome.OK)
FAIL: Final = int(Outcome.FAIL)
INFO: Final = int(Outcome.INFO)

STALE_TOKEN: Final = int(Reason.STALE_TOKEN)
NOT_OWNER: Final = int(Reason.NOT_OWNER)
UNAVAILABLE: Final = int(Reason.UNAVAILABLE)
