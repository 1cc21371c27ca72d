"""A simulated day under a latency goal: memory stays flat, and `metrics()` stays quick.

    anabranch bench latency/day

The controller takes a step a second for 24 hours, under a load with a burst in every ten
minutes. What is kept is looked at after each hour. Then a real job with a history and steps
of that length is asked for its metrics. It takes three minutes.
"""

from __future__ import annotations

import math
import statistics
import time
import tracemalloc
from collections.abc import Mapping

import anabranch as ab
from anabranch.control.latency.controller import LatencyController
from anabranch.metrics.job_metrics import MOST
from anabranch.metrics.latency import SinkLatencies, sojourns
from anabranch.metrics.load import Observed
from anabranch.metrics.pipeline import InputLoad, Pipeline, RegionShape, ServiceTime
from bench.harness.timing import Claim, Table, report, sized

HOUR_S = 3600
SERVICE_S = 0.01
CALM, BURST, PERIOD_S, LASTING_S = 50.0, 400.0, 600, 60
ASKED = 500  # times for its metrics


class Day:
    """A program with one region, which answers at once."""

    cores, others, epoch_items = 12, 2, None

    def __init__(self, steps: int) -> None:
        self.now_s = 0.0
        self.degrees: Mapping[str, int] = {"r0": 1}
        self.latencies = SinkLatencies().from_birth
        self._left = steps

    def watch(self, seconds: float, most_waiting: float = math.inf) -> Observed | None:
        """Let a second pass."""
        if not self._left:
            return None
        self._left -= 1
        self.now_s += 1.0
        burst = self.now_s % PERIOD_S < LASTING_S
        rate, degree = BURST if burst else CALM, self.degrees["r0"]
        late = rate * SERVICE_S > degree
        before = sojourns([self.latencies])
        self.latencies.record(1.0 if late else SERVICE_S, int(rate), at_s=self.now_s)
        load = InputLoad("work", ("work",), ServiceTime(SERVICE_S), rate, rate, degree)
        return Observed(
            1.0,
            (rate,) * 4,
            rate if late else 0.0,
            sojourns([self.latencies]).since(before),
            Pipeline((load,), {"r0": RegionShape(("work",), degree)}, rate),
        )

    def resize(self, degrees: Mapping[str, int], epoch_items: int | None) -> str:
        """Change the replicas."""
        self.degrees = {**self.degrees, **degrees}
        return "simulated"


def keep_by_hour(hours: int) -> tuple[list[float], LatencyController]:
    """Return the megabytes that are kept after each hour, and the controller."""
    kept = []
    tracemalloc.start()
    controller = LatencyController(Day(hours * HOUR_S), ab.latency("50 ms"))
    for _ in range(hours):
        for _ in range(HOUR_S):
            controller.advance()
        kept.append(tracemalloc.get_traced_memory()[0] / 1e6)
    tracemalloc.stop()
    return kept, controller


def ask_for_metrics(seen: LatencyController) -> list[float]:
    """Return how many ms each call takes of a job that has run as long as a controller."""
    load = ab.testing.constant(100, seconds=60)
    sink = ab.testing.offered(load).map(abs).for_each(lambda _: None)
    job = ab.start(sink, on="local", goal=ab.latency("50 ms"))
    controller = job._controller  # noqa: SLF001 - as if it had run for a day
    controller._steps.extend(seen.steps())  # noqa: SLF001
    for change in seen.history:
        controller.history.note(change)
    took_ms = []
    for _ in range(sized(ASKED, 50)):
        began_s = time.perf_counter()
        job.metrics()
        took_ms.append(1000 * (time.perf_counter() - began_s))
    job.stop()
    return took_ms


def main() -> None:
    """Let a day pass."""
    kept, controller = keep_by_hour(sized(24, 2))
    took_ms = ask_for_metrics(controller)
    rows = [[hour, f"{mb:.2f}"] for hour, mb in enumerate(kept, 1)]
    report(
        "a day",
        {"kept_mb": kept, "decided": controller.history.decided, "took_ms": took_ms},
        claims=[
            Claim(
                f"kept more in each of {len(kept)} simulated hours, behind the first",
                (kept[-1] - kept[0]) / (len(kept) - 1),
                unit="MB",
                at_most=0.05,
                remark=f"{kept[-1]:.2f} MB at the end; what grows is the history, up to "
                f"{MOST} decisions; there were {controller.history.decided}",
            ),
            Claim(
                "metrics() of a job with such a day behind it",
                statistics.median(took_ms),
                unit="ms",
                at_most=5.0,
                remark=f"median of {len(took_ms)}; longest {max(took_ms):.1f} ms",
            ),
        ],
        tables=[Table("kept", ["hour", "MB"], rows)],
    )


if __name__ == "__main__":
    main()
