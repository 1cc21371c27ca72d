"""Grey JPEG files (ITU T.81, baseline): what a decoder has to know, and a drawn one."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from huffman import huffman_code

SIDE = 8
SQUARE = SIDE * SIDE
Codes = Mapping[str, int]  # from bits, as text of 0 and 1, to what they stand for

# Where the numbers of a file go: along the diagonals, up and down in turn.
_ALONG = sorted(
    range(SQUARE),
    key=lambda n: (
        n // SIDE + n % SIDE,
        n % SIDE if (n // SIDE + n % SIDE) % 2 == 0 else n // SIDE,
    ),
)
ZIGZAG = tuple(_ALONG.index(n) for n in range(SQUARE))  # place -> number in the file

_STEPS, _FRAME, _CODES, _BITS = 0xDB, 0xC0, 0xC4, 0xDA  # what begins a part of a file
_REFUSED = {*range(0xC1, 0xD0), 0xDD} - {_CODES}  # other kinds of JPEG
_FIRST, _REST = 0x00, 0x10  # the numbers of the two tables of codes


class Picture(NamedTuple):
    """A picture in bits, and what it takes to decode it.

    `first` and `rest` are the codes of the first number of a square and of the others;
    `steps` is what each number counts, in the order of the file.
    """

    width: int
    height: int
    steps: tuple[int, ...]
    first: Codes
    rest: Codes
    data: bytes

    @property
    def squares(self) -> int:
        """How many there are; those at the right and below may stick out."""
        return -(-self.width // SIDE) * -(-self.height // SIDE)


def picture_of(path: Path) -> Picture:
    """Read the file of a picture."""
    file = path.read_bytes()
    tables: dict[tuple[int, int], bytes] = {}
    frame = b""
    at, marker = 2, 0
    while marker != _BITS:
        marker, size = file[at + 1], int.from_bytes(file[at + 2 : at + 4])
        part = file[at + 4 : at + 2 + size]
        at += 2 + size
        if marker == _FRAME:
            frame = part
        elif marker in {_STEPS, _CODES}:
            tables |= _tables(marker, part)
        if marker in _REFUSED or (marker == _FRAME and frame[5] != 1):
            msg = (
                f"{path} must be a grey baseline JPEG file without restarts; it is not"
            )
            raise ValueError(msg)
    return Picture(
        width=int.from_bytes(frame[3:5]),
        height=int.from_bytes(frame[1:3]),
        steps=tuple(tables[_STEPS, frame[8]]),
        first=codes_of(tables[_CODES, _FIRST]),
        rest=codes_of(tables[_CODES, _REST]),
        data=file[at : file.rindex(b"\xff\xd9")].replace(b"\xff\x00", b"\xff"),
    )


def codes_of(table: bytes) -> dict[str, int]:
    """Return a table of codes: how many there are of each length, and what they mean.

    >>> codes_of(bytes([1, 1, *[0] * 14, 7, 9]))
    {'0': 7, '10': 9}
    """
    codes = {}
    value, meanings = 0, iter(table[16:])
    for length in range(1, 17):
        for _ in range(table[length - 1]):
            codes[format(value, f"0{length}b")] = next(meanings)
            value += 1
        value *= 2
    return codes


def _tables(marker: int, part: bytes) -> dict[tuple[int, int], bytes]:
    """Return the tables of a part, by marker and number."""
    tables = {}
    while part:
        size = SQUARE if marker == _STEPS else 16 + sum(part[1:17])
        tables[marker, part[0]] = part[1 : 1 + size]
        part = part[1 + size :]
    return tables


def drawn_jpeg(width: int = 96, height: int = 64) -> bytes:
    """Return the file of a drawn picture: a bright disc over soft stripes."""
    rows = [
        [
            200
            if math.hypot(x - 40, y - 30) < 18
            else round(90 + 40 * math.sin(x / 7) + y / 2)
            for x in range(width)
        ]
        for y in range(height)
    ]
    return jpeg_of(rows)


def jpeg_of(rows: Sequence[Sequence[int]]) -> bytes:
    """Return a grey picture as a JPEG file; its sides are multiples of eight."""
    height, width = len(rows), len(rows[0])
    steps = [4 + 3 * (n // SIDE + n % SIDE) for n in _ALONG]
    corners = [(x, y) for y in range(0, height, SIDE) for x in range(0, width, SIDE)]
    squares = [_waves(rows, x, y) for x, y in corners]
    coded: list[tuple[int, int, str]] = []  # table, meaning of its code, bits behind it
    before = 0
    for waves in squares:
        numbers = [
            round(waves[n] / step) for n, step in zip(_ALONG, steps, strict=True)
        ]
        first, *rest = numbers
        coded.append((_FIRST, (first - before).bit_length(), _bits_of(first - before)))
        coded += _runs(rest)
        before = first
    tables = {
        table: _table_of(meaning for one, meaning, _ in coded if one == table)
        for table in (_FIRST, _REST)
    }
    bits_of = {
        table: {meaning: bits for bits, meaning in codes_of(data).items()}
        for table, data in tables.items()
    }
    bits = "".join(bits_of[table][meaning] + more for table, meaning, more in coded)
    bits += "1" * (-len(bits) % SIDE)
    data = int(bits, 2).to_bytes(len(bits) // SIDE).replace(b"\xff", b"\xff\x00")
    frame = [8, *height.to_bytes(2), *width.to_bytes(2), 1, 1, 0x11, 0]
    return b"".join(
        [
            b"\xff\xd8",
            _part(_STEPS, [0, *steps]),
            _part(_FRAME, frame),
            *(_part(_CODES, [table, *found]) for table, found in tables.items()),
            _part(_BITS, [1, 1, 0x00, 0, SQUARE - 1, 0]),
            data,
            b"\xff\xd9",
        ]
    )


def _waves(rows: Sequence[Sequence[int]], left: int, top: int) -> list[float]:
    """Return what a square is made of."""

    def wave(number: int, place: int) -> float:
        scale = math.sqrt((1 if number == 0 else 2) / SIDE)
        return scale * math.cos((2 * place + 1) * number * math.pi / (2 * SIDE))

    return [
        sum(
            (rows[top + y][left + x] - 128) * wave(n // SIDE, y) * wave(n % SIDE, x)
            for y in range(SIDE)
            for x in range(SIDE)
        )
        for n in range(SQUARE)
    ]


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    """Yield the numbers behind the first, each with the zeros before it."""
    zeros = 0
    for number in numbers:
        if number == 0:
            zeros += 1
            continue
        for _ in range(zeros // 16):
            yield _REST, 0xF0, ""
        yield _REST, zeros % 16 * 16 + number.bit_length(), _bits_of(number)
        zeros = 0
    if zeros:
        yield _REST, 0x00, ""


def _bits_of(number: int) -> str:
    """Return the bits of a number; those of a negative one begin with 0."""
    size = number.bit_length()
    if number < 0:
        number += 2**size - 1
    return format(number, f"0{size}b") if size else ""


def _table_of(meanings: Iterable[int]) -> bytes:
    """Return a table of codes; the code of nothing but ones must not be used."""
    counts = Counter(meanings)
    unused = 256
    lengths = {m: len(code) for m, code in huffman_code({**counts, unused: 0}).items()}
    known = sorted(counts, key=lambda meaning: (lengths[meaning], meaning))
    each = Counter(lengths[meaning] for meaning in known)
    return bytes([*(each[n] for n in range(1, 17)), *known])


def _part(marker: int, content: Sequence[int]) -> bytes:
    return bytes([0xFF, marker]) + (len(content) + 2).to_bytes(2) + bytes(content)
