"""Which process of pytest-xdist runs which tests. The groups of xdist itself do not work with pytest 9.

The tests of one backend go to one process, in order, so that each backend boots once. Those of the last backend go,
column by column, to any process that is idle, unless the cluster is a target, of which there is one. In a certification
a process continues with the version that it has tried, while another tries the same columns on the other version: so
each process has one environment, and a slow machine affects both versions alike.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from results.stages import ALONE
from suites.selection.selection import Selection, case_id
from suites.terminal import shared_backends
from suites.trial.spec import column_in


class ByBackend(LoadScopeScheduling):  # type: ignore[misc]
    """A scope is a backend or, for the shared backend, one column in one stage of an upgrade."""

    def __init__(self, selection: Selection, config: pytest.Config, log: Any = None) -> None:
        config.option.loadscopereorder = False  # those with most tests are not the longest
        super().__init__(config, log)
        shared = shared_backends(selection)
        self._scopes: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        """Scope → stage, where all of it is tried on servers of one version."""
        for lane in (*selection.lanes, *selection.planted):
            for fault in selection.faults:
                for stage in selection.stages:
                    scope = lane.backend
                    if scope in shared:
                        scope = f"{lane.backend} under {column_in(fault, stage.name)}"
                        if stage.name in ALONE:
                            self._versions[scope] = stage.name
                    self._scopes[f"{case_id(lane, fault, stage.name)}]"] = scope

    def _split_scope(self, nodeid: str) -> str:
        return self._scopes.get(nodeid.partition("[")[2], "")

    def _assign_work_unit(self, node: Any) -> None:
        """Prefer scopes of the version that the process has tried, then those that need a new environment, then any."""
        tried = {self._versions[scope] for scope in self.assigned_work.get(node, ()) if scope in self._versions}

        def rank(scope: str) -> int:
            version = self._versions.get(scope)
            return 1 if version is None else 0 if not tried or version in tried else 2

        self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)
