"""Surveys of text files: where rows begin in each block of a file, found by tasks.

Whether a newline ends a row depends on the quotes before it, so on all of the file up to
there. A survey of a block therefore covers both cases: the block begins outside quotes,
or inside a quoted field. A file begins outside quotes, and each survey says whether its
block changes that, so the case of every block follows. The cost grows with the number of
blocks, not of bytes.

A survey answers only where every quote of the block opens or closes a field by its
neighbours, and no stray carriage return hides one; by `toggles_of`, such a block reads the
same alone and within the whole file. Anything else has no answer, and the rows there have
to be found from the last row that is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import xxhash
from numpy.typing import NDArray

from anabranch.connectors.files.input_files import BLOCK_BYTES, read_range
from anabranch.connectors.files.splits import RowFormat, are_well_placed
from anabranch.connectors.storage import Location

STEP_BYTES = 1 << 16  # a survey names the first row of each step
_SLICE_BYTES = 8 * BLOCK_BYTES  # that are in memory at a time
_QUOTE, _NEWLINE, _RETURN = ord('"'), ord("\n"), ord("\r")


@dataclass(frozen=True)
class RowStarts:
    """Where rows begin in a block: the first of each step, in bytes of the file.

    `rows` and `lines` count the rows that begin, and the newlines that stand, in the block
    before each of them; `total` are all rows that begin in it. Blank lines are no rows.
    """

    offsets: NDArray[np.int64]
    rows: NDArray[np.int64]
    lines: NDArray[np.int64]
    total: int


@dataclass(frozen=True)
class BlockSurvey:
    """The rows of the bytes `start` to `end` of a file, for both ways to begin.

    An `odd` number of quotes changes the case for the block behind it. `digest` is that
    of a whole block, empty for part of one.
    """

    start: int
    end: int
    lines: int
    odd: bool
    outside: RowStarts | None
    inside: RowStarts | None
    digest: bytes = b""

    def of(self, *, quoted: bool) -> RowStarts | None:
        """Return the rows if the block begins inside quotes, or outside."""
        return self.inside if quoted else self.outside


def survey_file(
    path: Location, start: int, end: int, size: int, layout: RowFormat
) -> list[BlockSurvey]:
    """Survey the blocks of a file of `size` bytes between two ends of blocks."""
    found: list[BlockSurvey] = []
    for first in range(start, end, _SLICE_BYTES):
        last = min(end, first + _SLICE_BYTES)
        ahead = 1 if first else 0
        data = read_range(path, first - ahead, last + 1 - first + ahead)
        if len(data) < min(last + 1, size) - first + ahead:
            return found  # it was cut off; whoever reads it will say so
        for at in range(first, last, BLOCK_BYTES):
            begin = at - first + ahead
            block = data[begin : begin + min(BLOCK_BYTES, last - at)]
            before = data[begin - 1 : begin] if begin else b""
            behind = data[begin + len(block) : begin + len(block) + 1]
            digest = b""
            if len(block) == BLOCK_BYTES:
                digest = xxhash.xxh3_128_digest(block)
            found.append(survey_block(block, at, before, behind, layout, digest=digest))
    return found


def survey_block(
    data: bytes,
    start: int,
    before: bytes,
    behind: bytes,
    layout: RowFormat,
    *,
    digest: bytes = b"",
) -> BlockSurvey:
    r"""Survey a block, with the byte before it and the one behind it, if there are any.

    >>> made = survey_block(b'a,"1\n2"\n\nb,3', 0, b"\n", b"", RowFormat(quoted=True))
    >>> made.outside.total, made.inside, made.odd
    (2, None, False)
    """
    content = np.frombuffer(before + data + behind, np.uint8)
    ahead = len(before)
    quotes: NDArray[np.int64] = np.zeros(0, np.int64)
    unclear = False
    if layout.quoted:
        if b'"' in data:
            quotes = np.flatnonzero(content == _QUOTE)
            quotes = quotes[(quotes >= ahead) & (quotes < ahead + len(data))]
        if b"\r" in data:
            unclear = data.count(b"\r") != (data + behind).count(b"\r\n")
    newlines = np.flatnonzero(content[: ahead + len(data)] == _NEWLINE)

    def find(*, quoted: bool) -> RowStarts | None:
        openers, closers = quotes[int(quoted) :: 2], quotes[1 - int(quoted) :: 2]
        if unclear or not are_well_placed(
            content, openers, closers, ord(layout.delimiter)
        ):
            return None
        passed = np.searchsorted(quotes, newlines) + int(quoted)
        starts = newlines[passed % 2 == 0] + 1
        starts = starts[(starts >= ahead) & (starts < ahead + len(data))]
        filled = _find_filled(content, starts, layout, whole=not behind)
        if filled is None:
            return None
        steps = np.arange(
            start // STEP_BYTES * STEP_BYTES, start + len(data), STEP_BYTES
        )
        first = np.unique(np.searchsorted(starts, steps - start + ahead))
        first = first[first < len(starts)]
        counts = np.concatenate(([0], np.cumsum(filled)))
        lines = np.searchsorted(newlines, starts[first]) - int(before == b"\n")
        return RowStarts(
            starts[first] - ahead + start, counts[first], lines, int(counts[-1])
        )

    return BlockSurvey(
        start,
        start + len(data),
        data.count(b"\n"),
        len(quotes) % 2 == 1,
        find(quoted=False),
        find(quoted=True) if layout.quoted else None,
        digest,
    )


def _find_filled(
    content: NDArray[np.uint8],
    starts: NDArray[np.int64],
    layout: RowFormat,
    *,
    whole: bool,
) -> NDArray[np.bool_] | None:
    """Return which rows are no blank lines; None if the end of the block hides that."""
    filled = np.ones(len(starts), np.bool_)
    if layout.blank_rows or not len(starts):
        return filled
    first = content[starts]
    filled[first == _NEWLINE] = False
    for index in np.flatnonzero(first == _RETURN):
        behind = int(starts[index])
        while behind < len(content) and content[behind] == _RETURN:
            behind += 1
        if behind == len(content):
            if not whole:
                return None
            filled[index] = False
        else:
            filled[index] = content[behind] != _NEWLINE
    return filled


@dataclass(frozen=True)
class Stand:
    """A row at which a reader stands, in a block that was surveyed.

    `rows` and `lines` are those of the block before it.
    """

    offset: int
    block: BlockSurvey
    quoted: bool = False
    rows: int = 0
    lines: int = 0


@dataclass(frozen=True)
class Cut:
    """A row, or the end of the file, ahead: how far, and what lies between.

    Without a `stand` it is the end.
    """

    offset: int
    rows: int
    lines: int
    stand: Stand | None = None


@dataclass
class RowIndex:
    """The surveys of one file that are ahead of its reader."""

    _blocks: dict[int, BlockSurvey] = field(default_factory=dict)

    def add(self, surveys: Iterable[BlockSurvey]) -> None:
        """Take note of some blocks."""
        self._blocks.update((one.start, one) for one in surveys)

    def has(self, offset: int) -> bool:
        """Tell whether the block is known that begins at an offset."""
        return offset in self._blocks

    def digests(self) -> Mapping[int, bytes]:
        """Return the digests of whole blocks, by their number."""
        return {
            start // BLOCK_BYTES: one.digest
            for start, one in self._blocks.items()
            if one.digest
        }

    def forget_before(self, offset: int) -> None:
        """Drop what is behind the reader."""
        self._blocks = {
            start: one for start, one in self._blocks.items() if one.end > offset
        }

    def find_cuts(self, stand: Stand, until: int, size: int) -> Iterator[Cut]:
        """Return the cuts ahead, up to the block that holds the byte `until`."""
        rows, lines = -stand.rows, -stand.lines
        block: BlockSurvey | None = stand.block
        quoted = stand.quoted
        while block is not None and block.start <= until:
            found = block.of(quoted=quoted)
            if found is None:
                return
            columns = zip(found.offsets, found.rows, found.lines, strict=True)
            for offset, row, line in ((int(a), int(b), int(c)) for a, b, c in columns):
                if offset > stand.offset:
                    yield Cut(
                        offset,
                        rows + row,
                        lines + line,
                        Stand(offset, block, quoted, row, line),
                    )
            rows, lines = rows + found.total, lines + block.lines
            quoted ^= block.odd
            if block.end == size and not quoted:
                yield Cut(size, rows, lines)
            block = self._blocks.get(block.end)
