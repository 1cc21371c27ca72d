"""Sinks outside: they take the items of an epoch at a time, whole and in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from anabranch.errors import OutputError
from anabranch.runtime.writing.columns import Rows, columns_of
from anabranch.runtime.writing.csv import cells, encode_rows
from anabranch.runtime.writing.jsonl import json_line

Refuse: TypeAlias = Callable[[Any, Exception], None]  # returns to go on without an item


class External(ABC):
    """A sink outside of this process, while it is open."""

    @abstractmethod
    def write(self, epoch: int, items: Sequence[Any], refuse: Refuse) -> int:
        """Write the items of an epoch and return how many were taken.

        Epochs come in order. One that comes again has the same items; where the other
        side can tell, they are not written twice. An item that does not fit is refused
        and does no harm to the others.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the connection."""


class LineEncoder:
    r"""Makes a line of each item, without its end.

    >>> LineEncoder("jsonl", None).encoded(("a", 1))
    b'["a", 1]'
    """

    def __init__(self, format: str, item_type: Any) -> None:  # noqa: A002
        self._format = format
        self._rows = Rows(columns_of(item_type))

    def encoded(self, item: Any) -> bytes:
        """Return the line of an item; raise `OutputError` if it has none."""
        match self._format:
            case "jsonl":
                return json_line(item).removesuffix("\n").encode()
            case "csv":
                values = self._rows.values(item)
                assert self._rows.names is not None  # noqa: S101 - now there is an item
                return encode_rows([cells(values, self._rows.names)]).removesuffix(
                    b"\n"
                )
        if isinstance(item, bytes):
            return item
        if not isinstance(item, str):
            msg = f"an item must be a str or bytes to be sent as text; got {item!r}"
            raise OutputError(msg)
        return item.encode()

    def all_encoded(
        self, items: Sequence[Any], refuse: Refuse
    ) -> list[tuple[Any, bytes]]:
        """Return the items that can be written, each with its line."""
        found = []
        for item in items:
            try:
                found.append((item, self.encoded(item)))
            except (OutputError, UnicodeEncodeError) as error:
                refuse(item, error)
        return found
