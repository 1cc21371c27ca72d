"""A picture from its compressed bits, as the decoder of a video does it frame by frame.

Four operators in a row: the input gives the bits of a file; a Huffman decoder gives a
number whenever its bits are complete, at a rate that only the bits know; the inverse
quantisation scales 64 numbers at a time back; the inverse cosine transform makes pixels
of them, eight at a time along the rows and along the columns of a square of the picture.
This is the program in Figure 1 of the paper on hybrid scheduling.

The picture is drawn and compressed here: squares of 8 by 8 pixels, transformed,
quantised and coded with a Huffman code of their own.
"""

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import anabranch as ab
from huffman import Code, Encode, huffman_code

WIDTH, HEIGHT = 96, 64
SIDE = 8
SQUARE = SIDE * SIDE
STEPS = tuple(4 + 3 * (n // SIDE + n % SIDE) for n in range(SQUARE))
COSINES = tuple(
    tuple(
        math.sqrt((1 if wave == 0 else 2) / SIDE)
        * math.cos((2 * place + 1) * wave * math.pi / (2 * SIDE))
        for place in range(SIDE)
    )
    for wave in range(SIDE)
)


class Compressed(NamedTuple):
    """A picture in bits, and what it takes to decode it."""

    data: bytes
    code: Code
    numbers: int


class Huffman(ab.Operator):
    """Gives a number as soon as its bits are complete, until all have been given."""

    def __init__(self, code: Code, numbers: int) -> None:
        self.number_of = {bits: number for number, bits in code.items()}
        self.numbers = numbers

    def setup(self) -> None:
        """Start without a bit."""
        self.bits = ""
        self.given = 0

    def process(self, bit: str) -> Iterator[int]:
        """Take a bit."""
        self.bits += bit
        if self.bits in self.number_of and self.given < self.numbers:
            yield self.number_of[self.bits]
            self.bits = ""
            self.given += 1


def bits(byte: int) -> str:
    """Return the bits of a byte as text of 0 and 1."""
    return format(byte, "08b")


def scale(square: list[int]) -> list[float]:
    """Return the numbers of a square in the steps that they count."""
    return [float(n * step) for n, step in zip(square, STEPS, strict=True)]


def idct(waves: list[float]) -> list[float]:
    """Return what eight waves add up to at eight places."""
    return [
        sum(waves[wave] * COSINES[wave][place] for wave in range(SIDE))
        for place in range(SIDE)
    ]


def turn(square: list[float]) -> list[float]:
    """Return a square with its rows as columns."""
    return [
        square[row * SIDE + column] for column in range(SIDE) for row in range(SIDE)
    ]


def pixel(value: float) -> int:
    """Return the nearest shade of grey."""
    return min(255, max(0, round(value + 128)))


def program(picture: Compressed | None = None) -> ab.Sink:
    """Return the pixels, square by square."""
    given = picture or compressed(drawn())
    video_input = ab.from_iterable(list(given.data), int, name="video_input")
    numbers = video_input.flat_map(bits, name="bits").apply(
        Huffman, given.code, given.numbers, name="huffman"
    )
    scaled = numbers.block(scale, pop=SQUARE, push=SQUARE, name="iquant")
    rows = scaled.block(idct, pop=SIDE, push=SIDE, name="idct_rows")
    turned = rows.block(turn, pop=SQUARE, push=SQUARE, name="turn")
    columns = turned.block(idct, pop=SIDE, push=SIDE, name="idct_columns")
    upright = columns.block(turn, pop=SQUARE, push=SQUARE, name="turn_back")
    return upright.map(pixel, name="pixel").to_list(name="pixels")


def drawn() -> list[list[int]]:
    """Return a picture, square by square: a bright disc over soft stripes."""
    pixels = [
        [
            200
            if math.hypot(x - 40, y - 30) < 18
            else round(90 + 40 * math.sin(x / 7) + y / 2)
            for x in range(WIDTH)
        ]
        for y in range(HEIGHT)
    ]
    corners = [(x, y) for y in range(0, HEIGHT, SIDE) for x in range(0, WIDTH, SIDE)]
    return [
        [pixels[y + row][x + column] for row in range(SIDE) for column in range(SIDE)]
        for x, y in corners
    ]


def compressed(squares: list[list[int]]) -> Compressed:
    """Return a picture in bits: transformed, in whole steps, coded."""
    numbers = [number for square in squares for number in quantised(square)]
    code = huffman_code(Counter(numbers))
    packer = Encode(code)
    packer.setup()
    data = [byte for number in numbers for byte in packer.process(number)]
    return Compressed(bytes([*data, *packer.finish()]), code, len(numbers))


def quantised(square: list[int]) -> list[int]:
    """Return the waves of a square in whole steps."""
    waves = [
        sum(
            (square[SIDE * y + x] - 128) * COSINES[row][y] * COSINES[column][x]
            for y in range(SIDE)
            for x in range(SIDE)
        )
        for row in range(SIDE)
        for column in range(SIDE)
    ]
    return [round(wave / step) for wave, step in zip(waves, STEPS, strict=True)]
