r"""Lines of text: every line is an item, the blank ones too.

Lines end with ``\n`` or ``\r\n``, which does not belong to them. A line that is not
UTF-8 is bad.
"""

from __future__ import annotations

from anabranch.runtime.reading.rows import (
    BadRow,
    Numbered,
    Position,
    Refuse,
    Unreadable,
)


def lines_of(data: bytes) -> list[bytes]:
    r"""Return lines without their ends.

    >>> lines_of(b"one\r\n\ntwo")
    [b'one', b'', b'two']
    """
    lines = data.split(b"\n")
    if b"\r" in data:
        lines = [line.removesuffix(b"\r") for line in lines]
    if not lines[-1]:
        lines.pop()
    return lines


class TextParser:
    r"""Parses lines into strings.

    >>> list(TextParser().parse(b"one\r\n\ntwo", Position(1, 1), print))
    [('one', 1), ('', 2), ('two', 3)]
    """

    def parse(self, data: bytes, at: Position, refuse: Refuse) -> Numbered:
        """Give the lines that begin at `at`; return what comes next."""
        number = at.row
        for raw in lines_of(data):
            try:
                line = raw.decode()
            except UnicodeDecodeError:
                place = Position(number, at.line + number - at.row)
                refuse(BadRow(place, raw, Unreadable(f"must be UTF-8; got {raw!r}")))
            else:
                yield line, number
            number += 1
        return Position(number, at.line + number - at.row)
