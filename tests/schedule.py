"""Which process runs which tests: whole files, and those of Spark in one process.

A JVM takes seconds to start and longer to run at full speed, so only two processes run
the tests that use it, and these first: a test on Spark waits more than it computes, and
what only computes fills both cores until the end. A file is not divided, so that what its
tests share is made once. Files with few tests that take long would come last, as the
queue begins with the most tests; they are named here to come first.
"""

from __future__ import annotations

import re
from functools import cache

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.needs import ROOT

WORTH_A_JVM = 8  # files
LONGEST = frozenset(
    f"tests/{name}.py"
    for name in (
        *("apps/test_as_main", "apps/test_nexmark_clock", "golden/test_golden"),
        *("cli/test_commands", "cli/test_simulate", "compiler/columns/test_fuzz"),
        *("compiler/test_make_plan", "connectors/files/test_columnar_csv"),
        *("engines/local/test_actuator", "engines/local/test_columns"),
        *("engines/local/test_graph_regions", "engines/local/test_programs"),
        *("engines/spark/test_clocks", "engines/spark/test_result_limit"),
        *("engines/spark/test_stages", "engines/test_sharing"),
        *("examples/test_examples", "programs/test_sequential"),
    )
)
_USES_SPARK = re.compile(r"mark\.spark\b|def \w+\([^)]*\b(spark|engine)\b")


class FileScheduling(LoadScopeScheduling):
    """Gives each process whole files; one or two of them take those of Spark first."""

    _second: WorkerController | None = None  # the other one that has a JVM

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        first, *_ = [one for one in self.nodes if not one.shutting_down]
        on_spark = [file for file in self.workqueue if uses_spark(file)]
        others = [file for file in self.workqueue if not uses_spark(file)]
        if node is not first and self._second is None and len(on_spark) >= WORTH_A_JVM:
            self._second = node
        has_jvm = node is first or node is self._second
        files = (on_spark or others) if has_jvm else others
        if not files:  # the rest is for those that have a JVM
            node.shutdown()
            return
        chosen = next((file for file in files if file in LONGEST), files[0])
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


@cache
def uses_spark(file: str) -> bool:
    """Tell whether a file has tests that use the shared session."""
    return bool(_USES_SPARK.search((ROOT / file).read_text(encoding="utf-8")))
