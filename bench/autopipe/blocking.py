"""Four calls that block, 5 ms each: left to the controller, and by hand.

    anabranch bench autopipe/blocking

That is what a lookup in a database or a request to a server looks like. By hand is what a
user would try: a threaded port at each call, 8 replicas, 16 replicas. Target: the automatic
run takes at most 1.3 times as long as the best of these. Total time of whole runs, with what
the controller needs to see that the calls block. Who knows that 64 calls at a time
are fine can say `degree=64` at once: that is a line without a target. Two minutes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import anabranch as ab
from anabranch.engines.local.layout import Configuration
from anabranch.engines.local.run import LocalEngine
from anabranch.graph.graph import Input
from anabranch.job import compile_sinks
from anabranch.runtime.thread import Options
from bench.harness.timing import Table, claim, interleaved, ratio, report, sized

CALLS = ("one", "two", "three", "four")
CALL_S = 0.005
ITEMS = 2000
TURNS = 5
MANY = 64
AUTOMATIC, PORTS = "automatic", "a port at each call"


@ab.declare(state="stateless")
def look_up(item: int) -> int:
    """Wait as for an answer."""
    time.sleep(CALL_S)
    return item


def program() -> ab.Result:
    """Return the program."""
    stream = ab.from_iterable(range(sized(ITEMS, 100)), name="read")
    for name in CALLS:
        stream = stream.map(look_up, name=name)
    return stream.to_list()


def run_automatic() -> None:
    """Leave it to the controller."""
    ab.run(program(), on="local")


def run_replicas(degree: int) -> Callable[[], None]:
    """Return a run with so many replicas."""

    def run() -> None:
        ab.run(program(), on="local", degree=degree)

    return run


def run_ports() -> None:
    """Run each call in a thread of its own."""
    made = compile_sinks(program(), on="local")
    ports = frozenset(map(Input, CALLS[1:]))
    LocalEngine(Configuration(ports)).start(made.graph, made.plan, Options()).wait()


def main() -> None:
    """Measure all sides in turn."""
    by_hand = {
        PORTS: run_ports,
        "8 replicas": run_replicas(8),
        "16 replicas": run_replicas(16),
    }
    most = f"{MANY} replicas"
    sides = {AUTOMATIC: run_automatic, **by_hand, most: run_replicas(MANY)}
    times = interleaved(sides, TURNS)
    medians = {side: statistics.median(found) for side, found in times.items()}
    best = min(by_hand, key=lambda side: medians[side])
    report(
        "blocking calls",
        {"times": times},
        claims=[
            claim(
                f"four calls of 5 ms: time of the automatic run over {best}, the best by hand",
                ratio(times[AUTOMATIC], times[best]),
                at_most=1.3,
                remark=f"of {', '.join(by_hand)}",
            ),
            claim(
                f"four calls of 5 ms: time of the automatic run over {most} from the start",
                ratio(times[AUTOMATIC], times[most]),
                remark="the controller needs some measurements to get there",
            ),
        ],
        tables=[
            Table(
                "total time", ["run", "seconds"], [[*pair] for pair in medians.items()]
            )
        ],
    )


if __name__ == "__main__":
    main()
