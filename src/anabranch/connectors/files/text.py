r"""Lines of text: every line is an item, the blank ones too.

Lines end with ``\n`` or ``\r\n``, which does not belong to them. A line that is not
UTF-8 is bad.
"""

from __future__ import annotations

from typing import Any

from anabranch.connectors.files.rows import (
    BadRow,
    Numbered,
    Position,
    Refuse,
    RowParser,
    Unreadable,
    behind,
)


def lines_of(data: bytes) -> list[bytes]:
    r"""Return lines without their ends.

    >>> lines_of(b"one\r\n\ntwo")
    [b'one', b'', b'two']
    """
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if b"\r" in data:
        lines = [line.removesuffix(b"\r") for line in lines]
    return lines


class TextParser(RowParser):
    r"""Parses lines into strings.

    >>> list(TextParser().parse(b"one\r\n\ntwo", Position(1, 1), print))
    [('one', 1), ('', 2), ('two', 3)]
    """

    def at_once(self, data: bytes) -> list[Any] | None:
        try:
            return [line.decode() for line in lines_of(data)]
        except UnicodeDecodeError:
            return None

    def one_by_one(self, data: bytes, at: Position, refuse: Refuse) -> Numbered:
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
        return behind(data, at, number - at.row)
