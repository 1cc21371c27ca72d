"""What `anabranch bench all` runs: with which arguments, and what is said beside it.

A benchmark that is not named here runs without arguments. `SAID` has the targets of
those that report plain ratios: what a claim is called -> what stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Run:
    """One command, and its arguments where only a quick look is wanted."""

    bench: str
    arguments: tuple[str, ...] = ()
    quick: tuple[str, ...] = ()


GROUPS = {  # what the name of a benchmark begins with -> heading
    "safe": "Safe data parallelism",
    "autopipe": "Automatic pipelining",
    "auto": "Automatic against by hand",
    "hybrid": "Static and dynamic rates",
    "latency": "Latency bounds",
    "spark": "The Spark engine",
    "local": "The local engine",
    "peers": "Peers",
    "": "Checkpoints and compiler",
}

RUNS = (
    Run("auto_vs_hand", ("local",)),
    Run("auto_vs_hand", ("spark", "12")),
    Run("latency_fig2", quick=("simulated",)),
    *(Run(f"latency_fig{number}", ("here",)) for number in (4, 5, 6, 7)),
    Run(
        "latency_burst",
        ("simulated", "unseen", "local", "spark", "one-core"),
        ("simulated",),
    ),
    *(
        Run("spark_throughput", (job,), (job, "--rows", "20000", "--runs", "2"))
        for job in ("chain", "vwap", "window", "heavy")
    ),
    Run("spark_order", quick=("--rows", "20000", "--runs", "2")),
    Run("spark_epoch", quick=("--runs", "2", "--epochs", "5")),
    Run("spark_state", quick=("--runs", "2", "--touched", "500", "--epochs", "20")),
    Run("spark_recovery", quick=("--keys", "20000", "--runs", "2")),
    Run("kill", quick=("--points", "5")),
    Run("recovery", quick=("--keys", "20000", "--epochs", "3")),
    Run(
        "checkpoint_cost",
        quick=(
            *("--items", "20000", "--keys", "2000", "--epochs", "4"),
            *("--rounds", "2", "--growth", "0"),
        ),
    ),
    Run("compile_time", quick=("100", "1000")),
    Run("peers", ("--trades", "2000000", "--write"), ("--peers", "loop,anabranch")),
)

SAID: dict[str, dict[str, Any]] = {
    "chain: anabranch over two processes": {"at_least": 0.85},
    "chain: anabranch over four mapInPandas": {"at_least": 3.0},
    "vwap: anabranch over two processes": {"at_least": 0.6},
    "vwap: anabranch over applyInPandasWithState": {"at_least": 8.0},
    "vwap: anabranch over transformWithState": {"at_least": 8.0},
    "window: anabranch over two processes": {"at_least": 0.6},
    "window: anabranch over applyInPandasWithState": {"at_least": 8.0},
    "window: anabranch over transformWithState": {"at_least": 8.0},
    "heavy: anabranch over two processes": {"at_least": 0.9},
    "heavy: anabranch over anabranch, degree 1": {"at_least": 1.7},
    "epoch: stateless over bare": {"at_most": 1.2},
    "epoch: keyed over bare": {"at_most": 1.8},
    "order: vwap: time with order over without": {"at_most": 1.1},
    "order: chain: time with order over without": {"at_most": 1.0},
    "state: 1,000,000 held over 10,000 held": {"at_most": 1.5},
    "checkpoint: cost: an epoch with a checkpoint over one without": {"at_most": 1.15},
    "fused chain: local / loop": {"at_most": 1.15},
    "scaling: channels": {"at_least": 1.8},
    "scaling: pipelining": {"at_least": 1.7},
}
