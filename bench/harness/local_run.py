"""Run compiled programs on the local engine, and report what was measured."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anabranch.engines.local.layout import Configuration
from anabranch.engines.local.run import LocalEngine
from anabranch.graph.graph import Input
from anabranch.job import compile_sinks
from anabranch.language.drafts import Result
from anabranch.plan.plan import Plan
from anabranch.runtime.thread import Options
from bench.harness import timing


def running(
    sink: Result,
    *,
    degree: int = 1,
    ports: Sequence[str] = (),
    epoch: int = 10,
    edit: Callable[[Plan], Plan] = lambda plan: plan,
) -> Callable[[], Any]:
    """Return a call that runs a compiled program to its end on the local engine."""
    compilation = compile_sinks(sink, on="local")
    plan = edit(compilation.plan)
    configuration = Configuration(
        ports=frozenset(Input(name) for name in ports),
        degrees={region.name: degree for region in plan.regions},
        epoch=epoch,
    )

    def run() -> Any:
        started = LocalEngine(configuration).start(compilation.graph, plan, Options())
        started.wait()
        return started

    return run


def report(name: str, results: Mapping[str, Any], **kept: Any) -> None:
    """Report; and write the results to the file that `--json` names."""
    parser = argparse.ArgumentParser(description=f"measure: {name}")
    parser.add_argument("--json", help="write the results to this file")
    timing.report(name, results, parser.parse_args().json, **kept)
