"""Checksums of files, so that a damaged file is never accepted.

Without a key a checksum detects accidents: flipped bits, truncated files. With a key
(`ANABRANCH_CHECKPOINT_KEY`) it is a message authentication code: without the key nobody
can write a file that the job accepts, so nothing foreign is unpickled.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass, field
from typing import Any

import xxhash

from anabranch.connectors.storage import Location
from anabranch.errors import CheckpointError

KEY_VARIABLE = "ANABRANCH_CHECKPOINT_KEY"
_SHORTEST_KEY = 16
_LONGEST_KEY = 64  # of BLAKE2b; a longer one is hashed first
_BEGIN = b'{"digest":"'
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Seal:
    """Makes and verifies digests; those with a `key` require it.

    >>> seal = Seal()
    >>> seal.digest(b"states")
    'xxh3:1a03d3f309fd6bce'
    >>> seal.why_not(b"states", seal.digest(b"states")) is None
    True
    >>> seal.why_not(b"Rtates", seal.digest(b"states"))
    'its content is not what was written'
    """

    key: bytes | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls) -> Seal:
        """Return the seal with the key in the environment, if any."""
        named = os.environ.get(KEY_VARIABLE)
        if named is None:
            return cls()
        key = named.encode()
        if len(key) < _SHORTEST_KEY:
            msg = (
                f"{KEY_VARIABLE} must be a secret of at least {_SHORTEST_KEY} characters; "
                f"it has {len(key)}; make one with: openssl rand -hex 32"
            )
            raise CheckpointError(msg)
        return cls(key if len(key) <= _LONGEST_KEY else hashlib.blake2b(key).digest())

    @property
    def scheme(self) -> str:
        """The prefix of its digests."""
        return "xxh3" if self.key is None else "blake2b"

    def digest(self, data: bytes | memoryview) -> str:
        """Return the digest of some bytes."""
        made = self.begin()
        made.update(data)
        return made.digest

    def digest_file(self, path: Location) -> str:
        """Return the digest of a file."""
        made = self.begin()
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                made.update(block)
        return made.digest

    def begin(self) -> Digesting:
        """Return an empty digest, to be updated with bytes."""
        if self.key is None:
            return Digesting(self.scheme, xxhash.xxh3_64())
        return Digesting(self.scheme, hashlib.blake2b(key=self.key, digest_size=16))

    def why_not(self, data: bytes | memoryview, expected: str | None) -> str | None:
        """Return why bytes do not match a digest, or None."""
        why = self.why_not_digest(expected)
        if why is not None or expected is None:
            return why
        return self.why_other(expected, self.digest(data))

    def why_not_digest(self, expected: str | None) -> str | None:
        """Return why a digest cannot be verified, or None; older formats have none."""
        if expected is None:
            if self.key is None:
                return None
            return f"it was written without a key, and {KEY_VARIABLE} is set"
        scheme = expected.partition(":")[0]
        if scheme == "blake2b" and self.key is None:
            return f"it was written with a key, and {KEY_VARIABLE} is not set"
        if scheme == "xxh3" and self.key is not None:
            return f"it was written without a key, and {KEY_VARIABLE} is set"
        return None

    def why_other(self, expected: str, found: str) -> str | None:
        """Return why a digest differs from the expected one, or None."""
        if hmac.compare_digest(found.encode(), expected.encode()):
            return None
        other = "" if self.key is None else ", or was written with another key"
        return f"its content is not what was written{other}"

    def check(
        self, path: Location, data: bytes | memoryview, expected: str | None
    ) -> None:
        """Refuse the content of a file that is not what was written."""
        if (why := self.why_not(data, expected)) is not None:
            raise describe_damage(path, why)

    def check_digest(self, path: Location, found: str, expected: str | None) -> None:
        """Refuse a file whose digest is not the expected one."""
        why = self.why_not_digest(expected)
        if why is None and expected is not None:
            why = self.why_other(expected, found)
        if why is not None:
            raise describe_damage(path, why)

    def attach(self, payload: bytes) -> bytes:
        r"""Return a JSON object with its digest in front.

        >>> Seal().attach(b'{"epoch": 1}')
        b'{"digest":"xxh3:7a766af66d4315ac","epoch": 1}'
        """
        return _BEGIN + self.digest(payload).encode() + b'",' + payload[1:]

    def detach(self, path: Location, data: bytes) -> tuple[bytes, bool]:
        """Return the verified JSON object of `attach`, and whether it had a digest."""
        digest: str | None = None
        if data.startswith(_BEGIN):
            found, _, rest = data.removeprefix(_BEGIN).partition(b'",')
            digest, data = found.decode("ascii", "replace"), b"{" + rest
        self.check(path, data, digest)
        return data, digest is not None


class Digesting:
    """The digest of a sequence of bytes."""

    def __init__(self, scheme: str, hasher: Any) -> None:
        self._scheme = scheme
        self._hasher = hasher

    def update(self, data: bytes | memoryview) -> None:
        """Add some bytes."""
        self._hasher.update(data)

    @property
    def digest(self) -> str:
        """The digest of all bytes so far."""
        return f"{self._scheme}:{self._hasher.hexdigest()}"


NO_KEY = Seal()


def describe_damage(path: Location, why: object) -> CheckpointError:
    """Return the error that names a damaged checkpoint file."""
    return CheckpointError(
        f"a checkpoint must be whole; {path} cannot be read: {why}; "
        f"start again with an empty directory, or put the file back"
    )
