"""The chain of the paper's micro-benchmarks: operators of one cost behind a source."""

from __future__ import annotations

from anabranch.control.throughput.model import ItemCosts


def chain(operators: int = 8, cost_s: float = 0.01, port_s: float = 0.0) -> ItemCosts:
    names = ["read", *(f"o{number}" for number in range(1, operators + 1))]
    at = {tuple(names[: n + 1]): cost_s for n in range(1, operators + 1)}
    return ItemCosts({("read",): cost_s / 1000, **at}, port_s)
