"""Connectors that the tests of own connectors use; workers import them from here."""

from __future__ import annotations

import json
import pickle
import sqlite3
import threading
import uuid
from contextlib import closing
from dataclasses import dataclass
from os import getpid
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from anabranch.connectors.base import Malformed
from anabranch.errors import FencedError


class Cell(NamedTuple):
    partition: str
    row: int


@dataclass
class Grid(ab.Source):
    """Partitions of given lengths; `log` is told each reading and where it begins."""

    lengths: tuple[int, ...]
    block: int = 4
    log: str | None = None

    def partitions(self):
        return [f"p{number}" for number in range(len(self.lengths))]

    def read(self, partition, position):
        if self.log is not None:
            with Path(self.log).open("a") as file:
                file.write(json.dumps([partition, position]) + "\n")
        for row in range(position or 0, self.lengths[int(partition[1:])]):
            yield Cell(partition, row), row + 1


def in_blocks(lengths, block):
    """The order of a grid, worked out with other means: sort by block, then partition."""
    cells = [
        Cell(f"p{number}", row)
        for number, length in enumerate(lengths)
        for row in range(length)
    ]
    return sorted(cells, key=lambda cell: (cell.row // block, cell.partition, cell.row))


class Unpicklable(Grid):
    """A grid that holds on to something that cannot travel."""

    def __post_init__(self):
        self.lock = threading.Lock()


@dataclass
class Tail(ab.Source):
    """The lines that are added to a file; it has ended behind the line `end`."""

    path: str
    live = True

    def read(self, partition, position):
        with Path(self.path).open("rb") as file:
            file.seek(position or 0)
            while (line := file.readline()).endswith(b"\n"):
                if line == b"end\n":
                    return
                yield line.decode().strip(), file.tell()

    def has_ended(self):
        return Path(self.path).read_bytes().endswith(b"end\n")


@dataclass
class Files(ab.Sink):
    """One file for each epoch: a second commit of an epoch changes nothing."""

    directory: str

    def write(self, items):
        self.text = "".join(f"{item}\n" for item in items)

    def prepare(self, epoch):
        (Path(self.directory) / f".{epoch:05}").write_text(self.text)

    def commit(self, epoch):
        directory = Path(self.directory)
        (directory / f".{epoch:05}").replace(directory / f"{epoch:05}")

    def lines(self):
        """All that was written, in order."""
        files = sorted(Path(self.directory).glob("[0-9]*"))
        return [line for file in files for line in file.read_text().splitlines()]


class Parted(ab.Sink):
    """A directory of parts that tasks write, and a list of those of each epoch.

    An item that is equal to `refused` is left out. The list says who wrote each part.
    """

    def __init__(self, directory, refused=None):
        self.directory = Path(directory)
        self.refused = refused

    def write_part(self, part, items):
        kept = []
        for number, item in enumerate(items):
            if item == self.refused:
                part.refuse(number, "not for us")
            else:
                kept.append(json.dumps(item))
        self.directory.mkdir(exist_ok=True)
        with (self.directory / f"{part.name}.part").open("x") as file:
            file.write("\n".join(kept))
        return {"name": part.name, "process": getpid()}

    def commit_parts(self, epoch, parts):
        self.directory.mkdir(exist_ok=True)
        hidden = self.directory / f".{epoch:05}-{uuid.uuid4()}"
        hidden.write_text(json.dumps(parts))
        hidden.replace(self.directory / f"{epoch:05}.json")

    def epochs(self):
        """The parts of each epoch."""
        found = sorted(self.directory.glob("[0-9]*.json"))
        return [json.loads(path.read_text()) for path in found]

    def rows(self):
        """All that was committed, in order."""
        parts = [part["name"] for epoch in self.epochs() for part in epoch]
        texts = [(self.directory / f"{name}.part").read_text() for name in parts]
        return [json.loads(line) for text in texts for line in text.splitlines()]


class Numbering(Parted):
    """The same, but it knows its last epoch, and refuses one that comes again."""

    def open(self, job, type):
        return max((int(p.stem) for p in self.directory.glob("[0-9]*.json")), default=0)

    def commit_parts(self, epoch, parts):
        assert not (self.directory / f"{epoch:05}.json").exists()
        super().commit_parts(epoch, parts)


class Ledger(ab.Sink):
    """A system outside, in a database, that workers write.

    It lets the process commit that opened it last, as Kafka does. Nothing else keeps it
    from taking an epoch twice. It refuses items that are equal to `refused`.
    """

    in_workers = True
    encode, decode = staticmethod(json.dumps), staticmethod(json.loads)

    def __init__(self, path, refused=None):
        self.path = str(path)
        self.refused = refused
        self.writer = 0
        self.items = []

    def open(self, job, type):
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS writers (n INTEGER PRIMARY KEY)")
            db.execute("CREATE TABLE IF NOT EXISTS rows (epoch, process, item)")
            self.writer = db.execute("INSERT INTO writers VALUES (NULL)").lastrowid
            (last,) = db.execute("SELECT max(epoch) FROM rows").fetchone()
        return last or 0

    def write(self, items):
        self.items = [item for item in items if item != self.refused]
        bad = [item for item in items if item == self.refused]
        return [Malformed(item, "not for us") for item in bad]

    def commit(self, epoch):
        with closing(sqlite3.connect(self.path)) as db, db:
            (last,) = db.execute("SELECT max(n) FROM writers").fetchone()
            if last != self.writer:
                msg = "another process has opened it; this one must open it again"
                raise FencedError(msg)
            rows = [(epoch, getpid(), self.encode(item)) for item in self.items]
            db.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)

    def rows(self):
        """All that was committed, in the order of the commits."""
        return [self.decode(item) for _, item in self._select()]

    def writers(self):
        """The processes that have committed something."""
        return {process for process, _ in self._select()}

    def _select(self):
        with closing(sqlite3.connect(self.path)) as db:
            found = db.execute("SELECT process, item FROM rows ORDER BY rowid")
            return found.fetchall()


class AnyLedger(Ledger):
    """A ledger that takes items of any type; from workers or from the driver."""

    encode, decode = staticmethod(pickle.dumps), staticmethod(pickle.loads)

    def __init__(self, path, *, in_workers):
        super().__init__(path)
        self.in_workers = in_workers


@dataclass
class Numbered(ab.Source):
    """Rows as text, by offset: every line of each file that is not empty.

    A followed one has no end. With `locked` it cannot travel to workers.
    """

    directory: str
    follow: bool = False
    locked: bool = False

    def __post_init__(self):
        self.live = self.follow
        if self.locked:
            self.lock = threading.Lock()

    def partitions(self):
        return sorted(path.name for path in Path(self.directory).iterdir())

    def offsets(self, partition):
        return 0, len(self._lines(partition))

    def read(self, partition, position):
        for offset, line in enumerate(self._lines(partition)):
            if offset >= position and line:
                yield (partition, offset, line), offset + 1

    def decode(self, rows):
        return [
            int(line) if line.isdecimal() else ab.Malformed(line, "must be a number")
            for _, _, line in rows
        ]

    def born_s(self, row):
        return 1_000_000_000.0

    def _lines(self, partition):
        return (Path(self.directory) / partition).read_text().splitlines()
