"""Which files a path stands for, and how to open them."""

from __future__ import annotations

import glob
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from anabranch.errors import InputError
from anabranch.runtime.reading.splits import Layout, pieces

HIDDEN = ("_", ".")  # markers and unfinished files, as in Hadoop and Spark


def input_files(path: str) -> list[Path]:
    """Return the files of a path in the order in which they are read.

    A path is a file, a directory or a pattern. The files of a directory or pattern are
    read in the order of their names, without those that begin with `_` or `.`.
    """
    whole = Path(path)
    if whole.is_file():
        return [whole]
    if whole.is_dir():
        found = list(whole.iterdir())
    elif glob.has_magic(path):
        found = [Path(name) for name in glob.glob(path, recursive=True)]  # noqa: PTH207 - Path.glob takes no absolute pattern
    else:
        msg = (
            f"a source must read a file, a directory or a pattern; {path!r} does not "
            f"exist; check the path (it is looked up from {Path.cwd()})"
        )
        raise InputError(msg)
    files = [f for f in found if f.is_file() and not f.name.startswith(HIDDEN)]
    if not files:
        msg = (
            f"a source must find a file to read; {path!r} has none; "
            f"names that begin with _ or . do not count"
        )
        raise InputError(msg)
    return sorted(files, key=lambda file: file.parts)


def is_compressed(path: Path) -> bool:
    """Tell whether a file must be read from its beginning.

    >>> is_compressed(Path("events.jsonl.gz"))
    True
    """
    return path.suffix == ".gz"


def read_pieces(
    path: Path, layout: Layout, size: int = 1 << 20, most: int = 0
) -> Iterator[bytes]:
    """Read a file in pieces of whole rows, without a byte order mark.

    They begin with about `size` bytes and grow, if `most` is more than that.
    """
    with opened(path) as file:
        yield from pieces(file, layout, size, most)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading; what goes wrong with it becomes an `InputError`."""
    with input_errors(path):
        if is_compressed(path):
            with gzip.open(path) as file:
                yield cast("BinaryIO", ToTheDamage(file))
        else:
            with path.open("rb") as plain:
                yield plain


@contextmanager
def input_errors(path: Path) -> Iterator[None]:
    """Say in an `InputError` what is wrong with a file."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        msg = (
            f"{path} must be a whole gzip file; it is damaged or cut off ({error}); "
            f"fetch or compress it again"
        )
        raise InputError(msg) from error
    except OSError as error:
        msg = (
            f"{path} must be readable; {error.strerror or error}; "
            f"check the path and its permissions"
        )
        raise InputError(msg) from error


class ToTheDamage:
    """Reads a compressed file up to the place where it is damaged or cut off.

    `GzipFile.read` would keep back what it has read before the damage.
    """

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file
        self._damage: Exception | None = None

    def read(self, size: int) -> bytes:
        """Return `size` bytes, or what there is before the end or the damage."""
        blocks = []
        while size > 0 and self._damage is None:
            try:
                block = self._file.read1(size)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                self._damage = error
                break
            if not block:
                break
            blocks.append(block)
            size -= len(block)
        if self._damage is not None and not blocks:
            raise self._damage
        return b"".join(blocks)
