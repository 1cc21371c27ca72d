"""Functions of fixed rates, for the tests of blocks in parallel."""

from __future__ import annotations


def add(n: int) -> int:
    return n + 1


def pairs(window: list[int]) -> list[int]:
    return [sum(window), window[0]]


def triples(window: list[int]) -> list[int]:
    return [max(window) - min(window)]


def spread(window: list[int]) -> list[int]:
    return [window[0], *window, window[-1]]
