"""Which process runs which tests: whole files, and those of Spark in one process.

A JVM takes seconds to start and longer to run at full speed, so one process runs the
tests that use it while the others run the rest. Then one of these starts a second JVM,
if much is left: a test on Spark waits more than it computes. A file is not divided, so
that what its tests share is made once.
"""

from __future__ import annotations

import re
from functools import cache

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.needs import ROOT

WORTH_A_JVM = 8  # files
_USES_SPARK = re.compile(r"mark\.spark\b|def \w+\([^)]*\b(spark|engine)\b")


class FileScheduling(LoadScopeScheduling):
    """Gives each process whole files; those of Spark go to one process, later to two."""

    _second: WorkerController | None = None  # the other one that has a JVM

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        first, *_ = [one for one in self.nodes if not one.shutting_down]
        has_spark = node is first
        chosen = next((f for f in self.workqueue if uses_spark(f) == has_spark), None)
        if chosen is not None:
            self.workqueue.move_to_end(chosen, last=False)
        elif not has_spark and node is not self._second:
            if self._second is not None or len(self.workqueue) < WORTH_A_JVM:
                node.shutdown()
                return
            self._second = node
        super()._assign_work_unit(node)


@cache
def uses_spark(file: str) -> bool:
    """Tell whether a file has tests that use the shared session."""
    return bool(_USES_SPARK.search((ROOT / file).read_text(encoding="utf-8")))
