"""Figure 2: throughput and latency of lane detection by a fixed number of replicas.

In the paper throughput is best with 22 replicas on 12 cores of two threads each, and
latency rises, and varies more, from more than 10 on. First the paper's machine, simulated;
then this one, with the real film.
"""

from __future__ import annotations

import os
import statistics

import anabranch as ab
from bench.harness.timing import Claim
from bench.latency.film import film, frame_times, lane_detection, simulated_film
from bench.latency.report import asked, hold, keep, plot, table

REPETITIONS = 5


def simulated(times_s):
    rows = []
    for degree in range(1, 23):
        queue = simulated_film(times_s, degree)
        while queue.watch(1.0) is not None:
            pass
        late = [latency_s * 1000 for _, latency_s in queue.each[20:]]
        rows.append(
            [
                degree,
                len(queue.each) / queue.seconds,
                statistics.fmean(late),
                statistics.pstdev(late),
            ]
        )
    return rows


def real():
    app = lane_detection()
    degrees = range(1, 2 * (os.cpu_count() or 1) + 1)
    seen = {degree: [] for degree in degrees}
    for turn in range(REPETITIONS + 1):
        for degree in degrees:
            sink = app.lanes.stream(film())
            job = ab.run(sink, on="local", degree=degree)
            found = job.metrics()
            if turn:  # the first is for warming up
                latency = found.latency
                seen[degree].append((found.items_per_s, latency.p50_ms, latency.p99_ms))
    return [
        [
            degree,
            *(statistics.median(column) for column in zip(*ones, strict=True)),
            min(one[0] for one in ones),
            max(one[0] for one in ones),
        ]
        for degree, ones in seen.items()
    ]


def main() -> None:
    rows = simulated(frame_times())
    best = max(rows, key=lambda row: row[1])
    table(
        "12 cores of two threads each, simulated (paper: most frames a second with 22 "
        "replicas, latency rises from more than 10 on)",
        ["replicas", "frames/s", "mean ms", "spread ms"],
        rows,
    )
    print(f"most frames a second: {best[0]} replicas (paper: 22)")
    ten = next(row for row in rows if row[0] == 10)
    print(f"latency with 22 replicas: {best[2] / ten[2]:.2f} times that with 10\n")
    hold(
        [
            Claim(
                "replicas with the most frames a second, simulated",
                best[0],
                unit="replicas",
                paper="22 (Fig. 2)",
                remark="of 1 to 22; the paper's machine, from the frame times of the film here",
            )
        ]
    )
    results = {"simulated": rows}
    if not asked("simulated"):
        results["here"] = real()
        table(
            f"this machine, {os.cpu_count()} cores, the real film, {REPETITIONS} runs",
            ["replicas", "frames/s", "p50 ms", "p99 ms", "least/s", "most/s"],
            results["here"],
        )
    keep("latency_fig2", results)
    degrees = [row[0] for row in rows]
    plot(
        "latency_fig2",
        {
            "frames a second": {"simulated": (degrees, [row[1] for row in rows])},
            "mean latency (ms)": {"simulated": (degrees, [row[2] for row in rows])},
        },
    )


if __name__ == "__main__":
    main()
