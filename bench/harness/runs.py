"""What `anabranch bench all` runs: with which arguments, and what is said beside it.

A benchmark that is not named here runs without arguments. `SAID` has the targets of
those that report plain ratios: what a claim is called -> what stands beside it.
`NOT_MEASURED` has what a paper shows or a target asks for, and we have no record of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.harness.timing import Claim


@dataclass(frozen=True)
class Run:
    """One command, and its arguments where only a quick look is wanted."""

    bench: str
    arguments: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()


GROUPS = {  # a folder, or one benchmark in it -> heading
    "safe": "Safe data parallelism",
    "autopipe": "Automatic pipelining",
    "autopipe/by_hand": "Automatic and hand-tuned pipelines",
    "hybrid": "Static and dynamic rates",
    "latency": "Latency bounds",
    "spark": "The Spark engine",
    "local": "The local engine",
    "peers": "Peers",
    "checkpoint": "Checkpoints",
    "connectors": "Stores and brokers",
    "compile": "Compiler",
}

RUNS = (
    Run("autopipe/by_hand", ("local",), ("local",)),
    Run("autopipe/by_hand", ("spark", "12"), ("spark", "12")),
    Run("latency/fig2", quick=("simulated",)),
    *(Run(f"latency/fig{number}", ("here",)) for number in (4, 5, 6, 7)),
    Run("latency/loads", ("simulated",), ("simulated", "--only", "waits/plain/*")),
    *(
        Run("latency/loads", (part,), (part, "--only", "waits/plain/constant"))
        for part in ("local", "spark")
    ),
    Run("latency/reported", ("local",), ("local", "--turns", "1")),
    Run("latency/reported", ("spark", "--turns", "3"), ("spark", "--turns", "1")),
    Run("latency/day"),
    Run("latency/burst", ("simulated", "unseen"), ("simulated",)),
    Run("latency/burst", ("local", "spark", "one-core"), ("unseen",)),
    *(
        Run("spark/throughput", (job,), (job, "--rows", "20000", "--runs", "2"))
        for job in ("chain", "vwap", "window", "heavy", "mixed")
    ),
    *(
        Run(
            "spark/throughput",
            (job, "--rows", "10000000", "--skip-by-hand", *more),
            (job, "--rows", "30000", "--runs", "2", "--skip-by-hand", *more),
        )
        for more in ((), ("--parquet",))
        for job in ("chain", "vwap", "window")
    ),
    Run("safe/graphs", quick=("--items", "2000", "--runs", "1")),
    Run("spark/order", quick=("--rows", "20000", "--runs", "2")),
    Run("spark/first_result", quick=("--runs", "2")),
    Run("spark/scale", ("--channels", "1000"), ("--channels", "10")),
    Run(
        "spark/scale",
        ("--fit", "--levels", "1"),
        ("--fit", "--levels", "1", "--degrees", "2", "4", "8"),
    ),
    Run("spark/cuts", quick=("--runs", "2", "--items", "2000")),
    Run("spark/epoch", quick=("--runs", "2", "--epochs", "5")),
    Run(
        "spark/latency",
        ("--beside", "pyflink"),
        quick=("--runs", "1", "--seconds", "4"),
    ),
    Run("spark/state", quick=("--runs", "2", "--touched", "500", "--epochs", "20")),
    Run("spark/recovery", quick=("--keys", "20000", "--runs", "2")),
    *(
        Run("spark/event_time", (part,), (part, "--runs", "2"))
        for part in ("clock", "closing", "forgetting")
    ),
    Run("checkpoint/kill", ("--points", "60"), ("--points", "5")),
    Run(
        "checkpoint/recovery",
        quick=("--keys", "20000", "--epochs", "3", "--runs", "2"),
    ),
    Run(
        "checkpoint/cost",
        quick=(
            *("--items", "20000", "--keys", "2000", "--epochs", "4"),
            *("--rounds", "2", "--growth", "0"),
        ),
    ),
    Run("checkpoint/digests"),
    Run(
        "connectors/s3",
        quick=("--rows", "20000", "--items", "5000", "--epochs", "5", "--runs", "2"),
    ),
    Run("connectors/kafka", quick=("--rows", "5000", "--runs", "2")),
    Run("connectors/delivery", quick=("--rows", "5000", "--runs", "2")),
    Run("compile/time", quick=("100", "1000")),
    Run("local/verify", quick=("--items", "20000", "--runs", "2")),
    *(Run("local/load", ("--on", on), ("--on", "local")) for on in ("local", "spark")),
    Run("peers", ("--trades", "2000000", "--write"), ("--peers", "loop,anabranch")),
)

SAID: dict[str, dict[str, Any]] = {
    "order: vwap: time with order over without": {"at_most": 1.1},
    "order: chain: time with order over without": {"at_most": 1.0},
    "state: 1,000,000 held over 10,000 held": {"at_most": 1.5},
    "recovery: restoring over writing": {"at_most": 3.0},
    "checkpoint: cost: an epoch with a checkpoint over one without": {"at_most": 1.15},
    "fused chain: local / loop": {"at_most": 1.15},
    "scaling: channels": {"at_least": 1.8},
    "scaling: pipelining": {"at_least": 1.7},
}

_TWO_CORES = "needs 8 cores; this machine has 2"
_NO_RECORD = "there is a benchmark, but no record of it"

NOT_MEASURED: dict[str, tuple[Claim, ...]] = {  # group -> claims without a figure
    "autopipe": (
        Claim(
            "second worker by cost and tuple size on Spark, `autopipe/fig6 spark`",
            None,
            paper="2 for costly tuples (Fig. 6)",
            remark=_NO_RECORD,
        ),
        Claim(
            "cuts that the controller makes on Spark, `autopipe/cut`",
            None,
            remark=_NO_RECORD,
        ),
        Claim(
            "threaded ports on 8 cores",
            None,
            paper="Fig. 6, 8 and 9, on 8 cores",
            remark=_TWO_CORES + "; the rows of a model are no measurement",
        ),
    ),
    "autopipe/by_hand": (
        Claim(
            "LinearRoad with the paper's 15 operators",
            None,
            paper="2.56 over untouched, on 8 cores (Fig. 11)",
            remark="ours has 13 (docs/apps.md says why)",
        ),
    ),
    "latency": (
        Claim(
            "latency of all items from birth, with a doubling and a burst, `latency/burst local`",
            None,
            remark=_NO_RECORD,
        ),
    ),
    "local": (
        Claim(
            "free-threaded Python",
            None,
            remark="not supported: neither tested nor measured",
        ),
    ),
}
