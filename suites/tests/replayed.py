"""Stored operations, recorded anew at their own times, by a recorder that may have a planted bug."""

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from checkers.history.history import DTYPE, History, from_rows, read_recording
from checkers.row_format import ACQUIRES, FIELDS, NESTED, NONE, F, Outcome, Reason
from suites.lock import Grant, Indeterminate, Refused
from suites.mutants.catalogue import AlteredModules
from suites.worker.process_spec import Process

NOTED_LATER = (F.SESSION_OPEN, F.STALL)  # recorded when they are over, with the time at which they began
OF_A_GRANT = (F.RENEW, F.RELEASE)


def replayed(history: History, modules: AlteredModules, folder: Path) -> History:
    """The same history from new recordings by these modules, one for each worker. folder: an empty folder."""
    recorder, renewal = (modules.module(f"suites.worker.{name}") for name in ("recorder", "lease_renewal"))
    rows = np.zeros(len(history), DTYPE)
    for name, _ in FIELDS:
        rows[name] = history.columns[name]
    own = rows["process"] >= 0
    paths = {each: folder / str(each) for each in np.unique(rows["process"][own] % history.facts.workers).tolist()}
    recorders: dict[int, Any] = {}
    events: list[tuple[int, int, Callable[[], None]]] = []
    with mock.patch.object(recorder, "monotonic_ns") as clock:
        for worker, path in paths.items():
            recorder.create(path, len(rows))
            recorders[worker] = recorder.Recorder(path)
        for number in np.flatnonzero(own).tolist():
            row = {name: int(rows[name][number]) for name, _ in FIELDS}
            theirs, error = recorders[row["process"] % history.facts.workers], history.errors[row["error"]]
            operation = _Operation(theirs, renewal, row, error)
            events.append((row["ret"] if row["f"] in NOTED_LATER else row["inv"], 2 * number, operation.begin))
            if row["ret"] and row["f"] != F.LOST:
                events.append((row["ret"], 2 * number + 1, operation.end))
        for clock.return_value, _, happens in sorted(events, key=lambda event: event[:2]):
            happens()
    parts, errors = [rows[~own]], [""]
    for worker, path in paths.items():
        part = read_recording(path).copy()
        part["error"][part["error"] > 0] += len(errors) - 1
        errors += recorder.read_errors(path)
        parts.append(part)
        recorders[worker].page.close()
        os.close(recorders[worker]._error_file)
        path.unlink()
        recorder.errors_path(path).unlink()
    return from_rows(history.facts, np.concatenate(parts), history.faults, errors)


class _Operation:
    """One operation, as a worker records it. row: the row to record."""

    def __init__(self, recorder: Any, renewal: ModuleType, row: dict[str, int], error: str) -> None:
        self._recorder, self._renewal, self._row, self._error = recorder, renewal, row, error
        self._process = Process(row["process"], 0)
        self._at = -1

    def begin(self) -> None:
        row, recorder = self._row, self._recorder
        f, token = F(row["f"]), None if row["token"] == NONE else row["token"]
        since = row["inv"] if f in NOTED_LATER or f is F.RELEASE else None
        if f is F.LOST:
            recorder.lost(row["process"], row["key"], row["owner"], token, row["sent"], row["base"])
        elif f in OF_A_GRANT:
            grant = Grant("", row["owner"], token, 0, 0, 0, row["session"])
            self._at = self._renewal.Holding(grant, row["key"], row["flags"]).invoke(recorder, f, self._process, since)
        else:
            told = {name: row[name] for name in ("owner", "session", "flags")} | {"token": token, "since": since}
            if f in ACQUIRES:  # what the grant says is not known yet
                told |= {"session": 0, "ttl": 0 if row["outcome"] == Outcome.OK else row["ttl"]}
                told |= {} if row["flags"] & NESTED else {"owner": 0, "token": None}
            elif f is not F.READ:
                told |= {"value": row["value"], "base": row["base"]}
            self._at = recorder.invoke(f, row["process"], row["key"], **told)

    def end(self) -> None:
        row, recorder, at = self._row, self._recorder, self._at
        f, outcome, reason = F(row["f"]), row["outcome"], Reason(row["reason"])
        if f in ACQUIRES and row["value"] != NONE:
            recorder.woken(at, row["value"])
        if f in (*OF_A_GRANT, F.KEEP_ALIVE):
            self._renewal.completed(recorder, at, self._process, self._answer)
        elif outcome == Outcome.FAIL:
            recorder.fail(at, reason, self._error, row["session"] if f in ACQUIRES else 0)
        elif outcome == Outcome.INFO:
            recorder.info(at, self._error)
        elif f in ACQUIRES:
            token = None if row["token"] == NONE else row["token"]
            grant = Grant("", row["owner"], token, row["sent"], row["ttl"], 0, row["session"], max(row["base"], 0))
            recorder.granted(at, grant, grant.owner)
        elif f is F.SESSION_OPEN:
            recorder.opened(at, row["session"], row["ttl"])
        else:
            recorder.ok(at, row["value"] if f is F.READ else None)

    def _answer(self) -> None:
        """Raise what the client raises on the answer to its request."""
        if self._row["outcome"] == Outcome.FAIL:
            raise Refused(Reason(self._row["reason"]))
        if self._row["outcome"] == Outcome.INFO:
            raise Indeterminate(self._error)
