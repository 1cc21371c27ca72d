"""Programs of fixed rates: a filter bank, a cosine transform, and an FM radio.

Each is written as a user would write it, with plain functions over windows of floats,
and once more by hand with NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import anabranch as ab

Floats = npt.NDArray[np.float64]
Function = Callable[[Sequence[float]], list[float]]


def fir(taps: tuple[float, ...]) -> Function:
    """Return a filter with a finite response."""

    def filtered(window: Sequence[float]) -> list[float]:
        return [sum(x * tap for x, tap in zip(window, taps, strict=True))]

    return filtered


def low_pass(rate: float, cutoff: float, taps: int) -> tuple[float, ...]:
    """Return the coefficients of a low-pass filter in a Hamming window."""
    middle, w = (taps - 1) / 2, 2 * math.pi * cutoff / rate
    return tuple(
        w / math.pi
        if i == middle
        else math.sin(w * (i - middle))
        / math.pi
        / (i - middle)
        * (0.54 - 0.46 * math.cos(2 * math.pi * i / (taps - 1)))
        for i in range(taps)
    )


def convolved(x: Floats, taps: Sequence[float], step: int = 1) -> Floats:
    """Return what a filter gives, by NumPy."""
    return np.convolve(x, np.array(taps[::-1]), "valid")[::step]


# A filter bank: eight filters of 32 taps over the same samples, added up.

BANK = [low_pass(1.0, 0.05 * (n + 1), 32) for n in range(8)]


def added(window: Sequence[float]) -> list[float]:
    """Return the sum of what the filters give."""
    return [sum(window)]


def filter_bank(source: ab.Stream) -> ab.Stream:
    branches = [
        lambda s, taps=taps: s.block(fir(taps), pop=1, push=1, peek=len(taps))
        for taps in BANK
    ]
    bank = ab.split_join(ab.duplicate(), branches, ab.round_robin())
    return source.pipe(bank).block(added, pop=len(BANK), push=1)


def filter_bank_by_hand(x: Floats) -> Floats:
    return np.sum([convolved(x, taps) for taps in BANK], axis=0)


# The cosine transform of squares of 8 by 8: along the rows, turned, along the rows again.

SIDE = 8
COSINES = tuple(
    tuple(
        math.sqrt((1 if wave == 0 else 2) / SIDE)
        * math.cos((2 * place + 1) * wave * math.pi / (2 * SIDE))
        for place in range(SIDE)
    )
    for wave in range(SIDE)
)


def dct_row(row: Sequence[float]) -> list[float]:
    """Return the waves of eight samples."""
    return [
        sum(row[place] * COSINES[wave][place] for place in range(SIDE))
        for wave in range(SIDE)
    ]


def turn(square: Sequence[float]) -> list[float]:
    """Return a square with its rows as columns."""
    return [
        square[row * SIDE + column] for column in range(SIDE) for row in range(SIDE)
    ]


def dct(source: ab.Stream) -> ab.Stream:
    size = SIDE * SIDE
    rows = source.block(dct_row, pop=SIDE, push=SIDE)
    columns = rows.block(turn, pop=size, push=size).block(dct_row, pop=SIDE, push=SIDE)
    return columns.block(turn, pop=size, push=size)


def dct_by_hand(x: Floats) -> Floats:
    cosines = np.array(COSINES)
    squares = x[: len(x) // 64 * 64].reshape(-1, SIDE, SIDE)
    result: Floats = (cosines @ squares @ cosines.T).ravel()
    return result


# The FM radio of the StreamIt benchmarks, with its parameters.

RATE, CUTOFF, TAPS = 250_000_000.0, 108_000_000.0, 64
GAIN = 27_000.0 * (RATE / (10_000.0 * math.pi))
BANDS, LOW, HIGH = 11, 55.0, 1760.0
CUTOFFS = [
    math.exp(n * (math.log(HIGH) - math.log(LOW)) / (BANDS - 1) + math.log(LOW))
    for n in range(BANDS)
]
GAINS = [2.0 - abs((n - 1 - (BANDS - 2) / 2) / 5) for n in range(BANDS)]
FIRST = low_pass(RATE, CUTOFF, TAPS)


def demodulate(window: Sequence[float]) -> list[float]:
    """Return the frequency between two samples."""
    return [GAIN * math.atan(window[0] * window[1])]


def subtract(pair: Sequence[float]) -> list[float]:
    """Return what the higher filter lets through and the lower one does not."""
    return [pair[1] - pair[0]]


def amplify(gain: float) -> Callable[[float], float]:
    """Return an amplifier."""
    return lambda x: x * gain


def band(number: int) -> Callable[[ab.Stream], ab.Stream]:
    """Return a band of the equalizer."""
    edges = [low_pass(RATE, CUTOFFS[n], TAPS) for n in (number - 1, number)]
    filters = [
        lambda s, taps=taps: s.block(fir(taps), pop=1, push=1, peek=TAPS)
        for taps in edges
    ]
    both = ab.split_join(ab.duplicate(), filters, ab.round_robin())
    return lambda s: (
        s.pipe(both).block(subtract, pop=2, push=1).map(amplify(GAINS[number]))
    )


def fm_radio(source: ab.Stream) -> ab.Stream:
    heard = source.block(fir(FIRST), pop=5, push=1, peek=TAPS).block(
        demodulate, pop=1, push=1, peek=2
    )
    bands = [band(number) for number in range(1, BANDS)]
    equalizer = ab.split_join(ab.duplicate(), bands, ab.round_robin())
    return heard.pipe(equalizer).block(added, pop=BANDS - 1, push=1)


def fm_radio_by_hand(x: Floats) -> Floats:
    heard = convolved(x, FIRST, 5)
    heard = GAIN * np.arctan(heard[:-1] * heard[1:])
    taps = [low_pass(RATE, cutoff, TAPS) for cutoff in CUTOFFS]
    bands = [
        (convolved(heard, taps[n]) - convolved(heard, taps[n - 1])) * GAINS[n]
        for n in range(1, BANDS)
    ]
    return np.sum(bands, axis=0)


PROGRAMS: dict[str, tuple[Any, Any]] = {
    "FIR filter bank": (filter_bank, filter_bank_by_hand),
    "8x8 DCT": (dct, dct_by_hand),
    "FM radio": (fm_radio, fm_radio_by_hand),
}
