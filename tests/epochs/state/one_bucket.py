"""One bucket of a store, with keys that do not name it."""

from __future__ import annotations

from anabranch.epochs.state.buckets import PREFIX_BYTES, prefix_of_bucket
from anabranch.epochs.state.store import BucketStore


def in_bucket(number, entries):
    """Return sorted entries as they are stored in a bucket."""
    return [(prefix_of_bucket(number) + key, state) for key, state in sorted(entries)]


def without_bucket(entries):
    return ((key[PREFIX_BYTES:], state) for key, state in entries)


class Bucket:
    """A bucket of a store; there may be others."""

    def __init__(self, path, number=5):
        self.store, self.path, self.number = BucketStore(path), path, number

    @property
    def versions(self):
        return self.store.find_versions([self.number])[self.number]

    def begin(self, version, turn):
        return not self.store.begin({self.number: version}, turn)

    def end(self):
        self.store.end()

    def get(self, key):
        return self.store.get(prefix_of_bucket(self.number) + key)

    def states(self):
        """Return the states of the version that is read, or else of the last."""
        if self.store._reading is None:
            assert self.begin(self.versions[-1], 10**9)
            found = dict(without_bucket(self.store.states()))
            self.end()
            return found
        return dict(without_bucket(self.store.states()))

    def write(self, base, stamp, changes, pending=()):
        entries = in_bucket(self.number, changes.items())
        return not self.store.write({self.number: base}, stamp, entries, pending)

    def load(self, version, turn, tables, since=None):
        entries = [in_bucket(self.number, table) for table in tables]
        self.store.load(version, [self.number], turn, entries, since)
