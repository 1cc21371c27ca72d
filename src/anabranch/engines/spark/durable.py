"""Files that are there whole or not at all, also after a power failure."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def durably(path: Path, *, new: bool = False) -> Iterator[BinaryIO]:
    """Write a file under another name, and give it its own when it is on the disk.

    With `new` there must be no such file yet: of two that try, one gets a
    `FileExistsError`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "record"
    >>> with durably(path) as file:
    ...     _ = file.write(b"whole")
    ...     path.exists()
    False
    >>> path.read_bytes()
    b'whole'
    """
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with hidden.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if new:
            os.link(hidden, path)
        else:
            hidden.replace(path)
        sync(path.parent)
    finally:
        hidden.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Have the content of a file, or the names in a directory, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
