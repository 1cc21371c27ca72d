"""What the controller is tuned by; the letters are those of the paper."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """How eager and how careful the controller is.

    `beta` is how busy a thread must be to need help, and `alpha` the share of ports
    that may be blacklisted before no more are tried. A change is kept if it gains more
    than `least_gain` and more than `sureness` standard errors; if it looks like one but
    is not beyond doubt, it is measured up to `measurements` times. One that promises less
    than `least_promise` is not tried, nor to do without a channel if that may cost more
    than `most_risk`. After it has settled, `patience` measurements in
    a row that differ by more than `shift` wake the controller up.
    """

    beta: float = 0.8
    alpha: float = 0.1
    least_gain: float = 0.03
    least_promise: float = 0.05
    least_free_cores: float = 0.2
    most_risk: float = 0.1
    sureness: float = 3.0
    measurements: int = 3
    shift: float = 0.25
    patience: int = 2
    blacklist_per_arrangement: bool = False
    pruning: bool = True
    sorting: bool = True
