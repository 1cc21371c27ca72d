"""Outputs appear whole or not at all.

Everything is written under a hidden name beside its place (`.prices.<run>.tmp`) and
renamed when the run has ended well. What is there already is never written over.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from anabranch.errors import OutputError
from anabranch.graph.sinks import WriteFiles

SUCCESS = "_SUCCESS"  # an empty file that says that a directory is complete


def part_name(number: int, format: str) -> str:  # noqa: A002
    """Return the name of a part; in the order of their names the parts are the output.

    >>> part_name(12, "csv")
    'part-00012.csv'
    """
    return f"part-{number:05}.{format}"


def why_occupied(path: Path) -> str | None:
    """Return what stands in the way of a new output at `path`, or None."""
    if path.is_dir():
        return "a directory with files in it" if any(path.iterdir()) else None
    return "a file" if path.exists() and path.stat().st_size else None


class Output:
    """The place of an output, while it is being written."""

    def __init__(self, kind: WriteFiles) -> None:
        """Prepare the hidden place; refuse to write over anything."""
        self.path = Path(kind.path)
        self._kind = kind
        self._refuse_occupied()
        hidden = f".{self.path.name}.{uuid.uuid4().hex[:8]}.tmp"
        self.hidden = self.path.with_name(hidden)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not kind.single:
                self.hidden.mkdir()
        except OSError as error:
            raise self.failed(error) from error

    def part(self, number: int = 0) -> Path:
        """Return where to write a part; the one file of an output is its only part."""
        if self._kind.single:
            return self.hidden
        return self.hidden / part_name(number, self._kind.format)

    def commit(self) -> None:
        """Make the output visible, whole."""
        self._refuse_occupied()
        try:
            if not self._kind.single:
                (self.hidden / SUCCESS).touch()
            if self.path.is_dir():  # an empty one
                self.path.rmdir()
            elif not self._kind.single:
                self.path.unlink(missing_ok=True)
            self.hidden.replace(self.path)
        except OSError as error:
            raise self.failed(error) from error

    def abort(self) -> None:
        """Leave nothing behind."""
        if self._kind.single:
            self.hidden.unlink(missing_ok=True)
        else:
            shutil.rmtree(self.hidden, ignore_errors=True)

    def _refuse_occupied(self) -> None:
        occupied = why_occupied(self.path)
        if occupied is not None:
            msg = (
                f"an output must not exist yet; {self.path} is {occupied}; "
                f"remove it, or write to another path"
            )
            raise OutputError(msg)

    def failed(self, error: OSError) -> OutputError:
        """Return what to tell the user when the file system refuses."""
        return OutputError(
            f"{self.path} must be writable; {error.strerror or error}; "
            f"check the path, its permissions and the space on the disk"
        )
