"""The running example of the paper: Figures 3 and 4, and the matrix of section 4.1."""

from __future__ import annotations

from anabranch.metrics.load import Profile, ThreadLoad

EXAMPLE = Profile(
    (
        ThreadLoad("t0", 0.90, {"o1": 0.15, "o3": 0.50, "o4": 0.20}),
        ThreadLoad("t1", 1.00, {"o3": 0.50, "o4": 0.20}),
        ThreadLoad("t2", 0.90, {"o6": 0.30, "o4": 0.15, "o10": 0.05}),
        ThreadLoad("t3", 0.95, {"o8": 0.60, "o9": 0.30, "o10": 0.20}),
    )
)
