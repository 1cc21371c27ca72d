"""The decoded picture against matrices: all squares transformed at once."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as ab
from tests.apps.loading import ENGINES, load_app


@pytest.fixture(scope="module")
def decoder():
    return load_app("decoder")


def decoded_at_once(decoder, squares):
    """
    From the quantised waves, by products of whole matrices; no bits are involved.
    """
    n = np.arange(8)
    waves = np.cos((2 * n + 1) * n[:, None] * np.pi / 16) / 2
    waves[0] /= np.sqrt(2)
    steps = 4 + 3 * (n + n[:, None])
    counted = np.array([decoder.quantised(square) for square in squares])
    pixels = waves.T @ (counted.reshape(-1, 8, 8) * steps) @ waves + 128
    return np.clip(np.round(pixels), 0, 255).astype(int).ravel().tolist()


@pytest.mark.parametrize("on", ENGINES)
def test_pixels_are_those_of_matrices(decoder, on):
    squares = decoder.drawn()[::4]
    sink = decoder.program(decoder.compressed(squares))

    ab.run(sink, on=on)

    assert decoded_at_once(decoder, squares) == sink.items


def test_the_picture_is_close_to_what_was_drawn_and_smaller(decoder):
    squares = decoder.drawn()
    given = decoder.compressed(squares)
    sink = decoder.program(given)

    ab.run(sink, on="sequential")

    drawn = [pixel for square in squares for pixel in square]
    errors = [abs(a - b) for a, b in zip(drawn, sink.items, strict=True)]
    assert sum(errors) / len(errors) < 3
    assert len(given.data) < len(drawn) / 3
