"""Fingerprints of input files, to detect changes of input already read.

A job that continues from a checkpoint resumes at a position. That is only right if the
input before that position has not been rewritten. So a position has, for the current
file, its size, its modification time and a hash of the part that was read; and for all
files before it one digest of sizes and times, and one of contents. If size and time are
unchanged, only the two ends of the part are compared. Otherwise all of it is read
again: a file that has only grown, or was copied, is still the same.

Content is hashed in blocks, so that hashing can continue from a position.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

from anabranch.connectors.files.input_files import input_errors, read_range
from anabranch.connectors.storage import Location
from anabranch.errors import CheckpointError, InputError

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class FileLook:
    """The size and modification time of a file."""

    size: int
    time_ns: int

    @classmethod
    def at(cls, path: Location) -> FileLook:
        """Return the current size and time of a file."""
        with input_errors(path):
            found = path.stat()
        return cls(found.st_size, found.st_mtime_ns)


class InputDigest:
    """The part of a file that was read; a compressed file counts uncompressed bytes."""

    def __init__(self, path: Location) -> None:
        self.path = path
        self.look = FileLook.at(path)
        self._blocks = 0
        self._head = self._chain = ""
        self._rest = b""

    def look_again(self) -> None:
        """Record size and time before reading more: a later change will be noticed."""
        self.look = FileLook.at(self.path)

    def feed(self, data: bytes) -> None:
        """Add data that was read."""
        self._rest += data
        start = 0
        while len(self._rest) - start >= BLOCK_BYTES:
            block = self._rest[start : start + BLOCK_BYTES]
            self._link(xxhash.xxh3_128_digest(block))
            start += BLOCK_BYTES
        if start:
            self._rest = self._rest[start:]

    def skip(self, until: int, digests: Mapping[int, bytes]) -> None:
        """Note the bytes up to an offset, by the digests of their blocks.

        What is left of a block, and a block without a digest, is read.
        """
        while self._blocks < until // BLOCK_BYTES:
            known = digests.get(self._blocks)
            if known is None:
                self._read((self._blocks + 1) * BLOCK_BYTES)
            else:
                self._link(known)
                self._rest = b""
        self._read(until)

    def _read(self, until: int) -> None:
        at = self._blocks * BLOCK_BYTES + len(self._rest)
        data = read_range(self.path, at, until - at)
        if len(data) < until - at:
            raise describe_cut_off(self.path, until, at + len(data))
        self.feed(data)

    def _link(self, digest: bytes) -> None:
        self._chain = _link_digest(self._chain, digest)
        self._head = self._head or self._chain
        self._blocks += 1

    @property
    def content(self) -> str:
        """A digest of everything read."""
        return _link(self._chain, self._rest)

    def position(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            **vars(self.look),
            "blocks": self._blocks,
            "head": self._head,
            "chain": self._chain,
            "content": self.content,
        }

    @classmethod
    def resume(
        cls, path: Location, offset: int, position: dict[str, Any]
    ) -> InputDigest:
        """Continue from a position; refuse a file that was rewritten before
        `offset`.
        """
        made = cls(path)
        blocks = position["blocks"]
        start = blocks * BLOCK_BYTES
        rest = read_range(path, start, offset - start)
        same = _link(position["chain"], rest) == position["content"]
        if same and blocks:
            same = _link("", read_range(path, 0, BLOCK_BYTES)) == position["head"]
        if same and vars(made.look) != {k: position[k] for k in vars(made.look)}:
            same = _chain_of(path, blocks) == position["chain"]
        if not same:
            raise _describe_rewritten(path, f"before byte {offset}")
        made._blocks, made._rest = blocks, rest
        made._head, made._chain = position["head"], position["chain"]
        return made


@dataclass(frozen=True)
class PassedFiles:
    """Digests of the files that were read to their end."""

    looks: str = ""
    contents: str = ""

    def with_file(self, path: Location, look: FileLook, content: str) -> PassedFiles:
        """Return them with one more file."""
        name = os.fsencode(str(path))  # a name need not be UTF-8
        return PassedFiles(
            _link(self.looks, name + f" {look.size} {look.time_ns}".encode()),
            _link(self.contents, name + f" {content}".encode()),
        )

    def check(self, files: Sequence[Location], *, by_content: bool) -> None:
        """Refuse files changed since; `by_content`, a new time alone is accepted."""
        found = PassedFiles()
        for path in files:
            found = found.with_file(path, FileLook.at(path), "")
        if found.looks == self.looks:
            return
        if by_content:
            found = PassedFiles()
            for path in files:
                found = found.with_file(path, FileLook.at(path), content_of(path))
            if found.contents == self.contents:
                return
        newest = max(files, key=lambda path: FileLook.at(path).time_ns, default=None)
        what = f"one of the {len(files)} files that were read to their end"
        where = f"since (the one that was changed last is {newest})"
        raise _describe_rewritten(what, where)


def content_of(path: Location) -> str:
    """Return the digest of a file's whole content, as `InputDigest.content`."""
    made = InputDigest(path)
    at = 0
    while block := read_range(path, at, BLOCK_BYTES):
        made.feed(block)
        at += len(block)
    return made.content


def check_look(path: Location, position: dict[str, Any]) -> None:
    """Refuse a file whose size or modification time has changed."""
    now, before = FileLook.at(path), FileLook(**position)
    if now != before:
        raise _describe_rewritten(
            path,
            f"since it was read: it had {before.size} bytes and the time "
            f"{before.time_ns / 1e9:.6f}, and has {now.size} and {now.time_ns / 1e9:.6f}",
        )


def _chain_of(path: Location, blocks: int) -> str:
    chain = ""
    for number in range(blocks):
        chain = _link(chain, read_range(path, number * BLOCK_BYTES, BLOCK_BYTES))
    return chain


def _link(chain: str, block: bytes) -> str:
    return _link_digest(chain, xxhash.xxh3_128_digest(block))


def _link_digest(chain: str, digest: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(chain.encode() + digest)


def describe_cut_off(path: Location | str, wanted: int, found: int) -> InputError:
    """Return the user's error for a file that was longer before."""
    return InputError(
        f"{path} must not change while it is read; it had at least {wanted} bytes and "
        f"has {found} now; put it back and run the job again"
    )


def _describe_rewritten(what: Location | str, where: str) -> CheckpointError:
    return CheckpointError(
        f"a source must still have what was read from it; {what} was changed {where}; "
        f"put it back as it was, with its time of change, or start with an empty "
        f"checkpoint and another output"
    )
