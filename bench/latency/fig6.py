"""Figure 6: constraint of 200 ms, threshold of 10%; `here` adds this machine."""

from __future__ import annotations

from bench.latency.regulated import figure


def main() -> None:
    figure(6, 200, 0.1)


if __name__ == "__main__":
    main()
