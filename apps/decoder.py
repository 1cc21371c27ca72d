"""A picture from its compressed bits, as the decoder of a video does it frame by frame.

Four operators in a row: the input gives the bits of a file; a Huffman decoder gives a
number whenever its bits are complete, at a rate that only the bits know; the inverse
quantisation scales 64 numbers at a time back; the inverse cosine transform makes pixels
of them, eight at a time along the rows and along the columns of a square of the picture.
This is the program in Figure 1 of the paper on hybrid scheduling. The bits are those of
a grey JPEG file (baseline, as cameras of the kind write them).

It reads a frame of a film taken from a car (folder `lane` of the real data; OpenCV makes
a JPEG file of it: pip install 'anabranch[lane]'), and a picture that is drawn where there
is none.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import anabranch as ab
from samples import SAMPLES, bytes_sample, real_file
from samples.jpeg import SIDE, SQUARE, ZIGZAG, Codes, drawn_jpeg, picture_of

COSINES = tuple(
    tuple(
        math.sqrt((1 if wave == 0 else 2) / SIDE)
        * math.cos((2 * place + 1) * wave * math.pi / (2 * SIDE))
        for place in range(SIDE)
    )
    for wave in range(SIDE)
)


class Huffman(ab.Operator):
    """Gives the numbers of a square as soon as their bits are complete.

    A code tells how many zeros come first and how many bits the next number has; the
    first number of a square is what is to be added to that of the square before.
    """

    def __init__(self, first: Codes, rest: Codes, squares: int) -> None:
        self.first, self.rest, self.squares = first, rest, squares

    def setup(self) -> None:
        """Start without a bit."""
        self.bits = ""
        self.size = 0  # of the number that is being read; 0: it is a code
        self.place = 0  # in the square
        self.before = 0
        self.done = 0

    def process(self, bit: str) -> Iterator[int]:
        """Take a bit."""
        if self.done == self.squares:
            return  # what is left fills the last byte
        self.bits += bit
        if self.size:
            if len(self.bits) == self.size:
                yield self.number()
        else:
            codes = self.rest if self.place else self.first
            if self.bits in codes:
                zeros, self.size = divmod(codes[self.bits], 16)
                self.bits = ""
                if self.place == 0 and self.size == 0:
                    yield self.number()
                else:
                    if self.size == 0:
                        zeros = 16 if zeros else SQUARE - self.place
                    yield from [0] * zeros
                    self.place += zeros
        if self.place == SQUARE:
            self.place = 0
            self.done += 1

    def number(self) -> int:
        """Return the number that the bits stand for; the lower half is negative."""
        value = int(self.bits or "0", 2)
        if self.bits.startswith("0"):
            value -= 2**self.size - 1
        if self.place == 0:
            value = self.before = self.before + value
        self.bits = ""
        self.size = 0
        self.place += 1
        return value


def bits(byte: int) -> str:
    """Return the bits of a byte as text of 0 and 1."""
    return format(byte, "08b")


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


def program(path: Path | None = None) -> ab.Result:
    """Return the pixels, square by square."""
    given = picture_of(path or real_picture() or sample_picture())
    steps = given.steps

    def scale(square: list[int]) -> list[float]:
        """Return the numbers of a square in their order, in the steps that they count."""
        return [float(square[n] * steps[n]) for n in ZIGZAG]

    video_input = ab.from_iterable(given.data, int, name="video_input")
    numbers = video_input.flat_map(bits, name="bits").apply(
        Huffman, given.first, given.rest, given.squares, name="huffman"
    )
    scaled = numbers.block(scale, pop=SQUARE, push=SQUARE, name="iquant")
    rows = scaled.block(idct, pop=SIDE, push=SIDE, name="idct_rows")
    turned = rows.block(turn, pop=SQUARE, push=SQUARE, name="turn")
    columns = turned.block(idct, pop=SIDE, push=SIDE, name="idct_columns")
    upright = columns.block(turn, pop=SQUARE, push=SQUARE, name="turn_back")
    return upright.map(pixel, name="pixel").to_list(name="pixels")


def real_picture() -> Path | None:
    """Return the first frame of the film as a JPEG file; None without film or OpenCV."""
    film = real_file("lane", "solidWhiteRight.mp4")
    try:
        import cv2  # noqa: PLC0415 - the application does without it
    except ImportError:
        return None
    if film is None:
        return None
    _, frame = cv2.VideoCapture(str(film)).read()
    _, data = cv2.imencode(".jpg", cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY))
    return bytes_sample("road.jpg", data.tobytes(), SAMPLES)


def sample_picture(folder: Path = SAMPLES) -> Path:
    """Return a drawn picture as a JPEG file: a bright disc over soft stripes."""
    return bytes_sample("drawn.jpg", drawn_jpeg(), folder)
