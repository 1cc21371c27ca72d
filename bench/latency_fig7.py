"""Figure 7: constraint of 200 ms, threshold of 20%; `here` adds this machine."""

from __future__ import annotations

from latency_regulated import figure

if __name__ == "__main__":
    figure(7, 200, 0.2)
