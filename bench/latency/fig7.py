"""Figure 7: constraint of 200 ms, threshold of 20%; `here` adds this machine."""

from __future__ import annotations

from bench.latency.regulated import figure


def main() -> None:
    figure(7, 200, 0.2)


if __name__ == "__main__":
    main()
