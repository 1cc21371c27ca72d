"""Functions with state, and a way to have an engine take them for stateless ones."""

from __future__ import annotations

import anabranch as ab
from anabranch.compiler.compile import Compilation
from anabranch.job import Job, Replanning, compile_sinks, engine_named
from anabranch.runtime.failures import stop
from anabranch.runtime.thread import Options


def mislead(sinks, on, functions, **options):
    """Return the compilation of a program as if analysis had misjudged functions."""
    for function in functions:
        ab.declare(state="stateless")(function)
    try:
        return compile_sinks(*sinks, on=on, **options)
    finally:
        for function in functions:
            del function.__anabranch__


def run_misled(made: Compilation, on, **options):
    """Run a compilation on an engine, to its end; return the job."""
    replanning = Replanning(made, stop)
    chosen = Options(replan=replanning, **options)
    job = Job(replanning, engine_named(on).start(made.graph, made.plan, chosen))
    job.wait(60)
    return job
