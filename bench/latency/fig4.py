"""Figure 4: constraint of 180 ms, threshold of 10%; `here` adds this machine."""

from __future__ import annotations

from bench.latency.regulated import figure


def main() -> None:
    figure(4, 180, 0.1)


if __name__ == "__main__":
    main()
