"""Figure 5 (a): what dynamic queues cost without batching, beside the fused program.

A pipeline of n + 1 operators that do nothing, with n queues between them, on one core.
Both sides run on the local engine; a queue is a threaded port.
"""

from __future__ import annotations

from bench.harness.cores import on_cores
from bench.harness.timing import sized
from bench.hybrid.figure import Figure, over, speeds
from bench.hybrid.work import floats, identity, pipeline, run_with_queues


def main() -> None:
    figure = Figure(
        "hybrid-fig5a",
        "Queues without batching, normalised to the fused program",
        ("queues", "throughput / fused"),
        "0.2 with one queue (5 times slower), 0.1 with 31 (10 times)",
    )
    with on_cores(1):
        for queues in (1, 3, 7, 15, 31):
            functions = [identity] * (queues + 1)
            few = pipeline(floats(sized(2000, 200)), *functions)
            many = pipeline(floats(sized(200_000, 2000)), *functions)
            one_by_one = run_with_queues(few, few.names[1:], batch=1)
            queued = speeds({"queues": one_by_one}, len(few.items))["queues"]
            fused = speeds({"fused": run_with_queues(many)}, len(many.items))["fused"]
            figure.point("hybrid", queues, over(queued, fused))
            if queues in (1, 31):
                what = f"throughput over fused, {queues} queues without batching"
                figure.claim(what, queued, fused)
    figure.finish()


if __name__ == "__main__":
    main()
