"""The local engine: threads of this process."""

from __future__ import annotations

import os
import sys

from anabranch.engines.engine import Options
from anabranch.engines.local.configuration import Configuration
from anabranch.engines.local.run import LocalRun
from anabranch.graph.graph import Graph
from anabranch.plan.plan import Plan


class LocalEngine:
    """Runs a program in this process, beginning with a given configuration if any."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = configuration

    def start(self, graph: Graph, plan: Plan, options: Options) -> LocalRun:
        configuration = self._configuration
        if configuration is None:
            degree = options.degree or default_degree()
            degrees = dict.fromkeys((region.name for region in plan.regions), degree)
            configuration = Configuration(
                degrees=degrees, fission=options.degree or os.cpu_count() or 1
            )
        run = LocalRun(graph, plan, options, configuration)
        run.begin()
        return run


def default_degree() -> int:
    """Return how many channels a region begins with.

    Threads that hold the interpreter's lock gain nothing from channels; whether user
    code releases it is for the control layer to find out.
    """
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    return 1 if locked else os.cpu_count() or 1
