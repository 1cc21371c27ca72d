"""Figure 5: constraint of 180 ms, threshold of 20%; `here` adds this machine."""

from __future__ import annotations

from latency_regulated import figure

if __name__ == "__main__":
    figure(5, 180, 0.2)
