"""A gate: where the flow of a source can be held up between two batches."""

from __future__ import annotations

import threading


class Gate:
    """Open, unless somebody has closed it; one batch at a time goes through.

    A plain lock would not do: the source takes it again as soon as it lets it go, and
    whoever wants to close it might wait for a long time.

    >>> gate = Gate()
    >>> with gate:
    ...     pass  # send a batch in
    >>> gate.close()  # returns when no batch is on its way in
    >>> gate.open()
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._closed = False
        self._passing = False
        self._waiting = 0
        self._due = False  # somebody waited while it was closed, and goes first

    def __enter__(self) -> None:
        with self._changed:
            self._waiting += 1
            while self._closed or self._passing:
                self._changed.wait()
            self._waiting -= 1
            self._passing = True
            self._due = False

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._passing = False
            self._changed.notify_all()

    def close(self) -> None:
        """Let nothing more through; wait until what is passing has passed.

        What waited for the gate to open goes first: the flow moves on between any two
        changes, however quickly they follow each other.
        """
        with self._changed:
            while self._due:
                self._changed.wait()
            self._closed = True
            while self._passing:
                self._changed.wait()

    def open(self) -> None:
        """Let batches through again."""
        with self._changed:
            self._closed = False
            self._due = self._waiting > 0
            self._changed.notify_all()
