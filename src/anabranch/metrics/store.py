"""The file that a run writes: one line of JSON after another, read while it grows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from anabranch.metrics.record import Line, Story


def append(path: Path, lines: Iterable[Line]) -> None:
    """Write lines at the end, so that whoever reads them sees all or none of a line."""
    text = "".join(f"{json.dumps(line, default=str)}\n" for line in lines)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


class Follower:
    """Reads a file that a run writes, as far as it goes.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "run.jsonl"
    >>> append(path, [{"end": {"status": "finished", "error": None}}])
    >>> Follower(path).story().status
    'finished'
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._story = Story()
        self._offset = 0

    def story(self) -> Story:
        """Return what the file tells by now; a line that is still written must wait."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for line in whole.splitlines():
            self._story.add(json.loads(line))
        return self._story
