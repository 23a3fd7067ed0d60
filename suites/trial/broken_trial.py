"""What becomes of a trial that broke, for example because a worker raised what it may not raise: the reason is recorded
instead of a verdict, and the lanes of the locks that are not to blame get a trial of their own.
"""

from collections.abc import Callable

from infra.errors import Trouble
from results.record import TrialRecord
from suites.lanes.lane import Lane
from suites.selection.trial import Trial
from suites.trial.metadata import about
from suites.worker.pool import TrialBroke, WorkerBroke


class TrialFailed(Exception):
    """The trial of a case came to no verdict. The first case of the trial raises the reason itself instead."""


class NoWayThere(TrialBroke):
    """The new version does not start on the data of the old one. The text: the server's last words."""


def broken_record(trial: Trial, error: Exception, masked: Callable[[str], str]) -> TrialRecord:
    """The record of a trial without a verdict. masked: hides the secrets in a text."""
    line, message = masked(reason(error)), masked(str(error) or repr(error))
    rest: dict[str, object] = {"traceback": lines} if (lines := message.splitlines()[1:]) else {}
    if isinstance(error, NoWayThere):
        rest["no_way_there"] = line
    return TrialRecord(trial.name, {**about(trial), "error": line, **rest}, ())


def blameless(lanes: tuple[Lane, ...], error: Exception) -> tuple[Lane, ...]:
    """The lanes of locks whose workers did not break the trial. Empty if it is not known whose workers did."""
    broke = error.lanes if isinstance(error, WorkerBroke) else frozenset[str]()
    blamed = {lane.lock_name for lane in lanes if lane.name in broke}
    return tuple(lane for lane in lanes if lane.lock_name not in blamed) if blamed else ()


def reason(error: Exception) -> str:
    """Why the trial broke, in one line."""
    known = isinstance(error, TrialBroke | Trouble)
    return (str(error) if known else f"{type(error).__name__}: {error}").partition("\n")[0]
