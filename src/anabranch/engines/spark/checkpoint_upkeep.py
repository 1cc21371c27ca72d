"""Which buckets get a new snapshot, and which logs nobody needs any more.

Each epoch writes about as many bytes of snapshots as of logs, oldest snapshot first.
So the work is spread evenly, no epoch has to write everything, and the logs that are
kept are about as large as the state itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from anabranch.engines.spark.checkpoint_record import Log, Record, Snapshot

OLDEST = 48  # epochs that a log may wait, however small the logs are
_LEAST = 1 << 18  # bytes: a smaller snapshot costs as much as one of this size

Place = tuple[str, int]  # unit, bucket


class Upkeep:
    """Chooses the buckets that the next epoch has to write whole."""

    def __init__(self) -> None:
        self._allowed: dict[str, int] = {}  # unit -> bytes of snapshots, by its logs

    def due(self, record: Record, new: Iterable[Log]) -> frozenset[Place]:
        """Return what the epoch after `record` has to write; `new` are its logs."""
        for log in new:
            earned = sum(log.sizes.values())
            self._allowed[log.unit] = self._allowed.get(log.unit, 0) + earned
        chosen: set[Place] = set()
        for unit, buckets in _logged(record).items():
            by_age = sorted(buckets, key=lambda one: (buckets[one][0], one))
            for rank, bucket in enumerate(by_age):
                since, size = buckets[bucket]
                cost = max(size, _LEAST)
                aged = rank == 0 and record.epoch - since >= OLDEST
                if self._allowed.get(unit, 0) < cost and not aged:
                    break
                chosen.add((unit, bucket))
                self._allowed[unit] = max(0, self._allowed.get(unit, 0) - cost)
        return frozenset(chosen)


def _logged(record: Record) -> Mapping[str, dict[int, tuple[int, int]]]:
    """Return buckets with changes since their snapshot: its epoch, and a likely size.

    A state can at most be as large as its last snapshot and the changes since; the
    larger of both is at least half of that.
    """
    snapshots = {(one.unit, one.bucket): one for one in record.snapshots}
    logged: dict[Place, tuple[int, int]] = {}  # since when, how many bytes
    for log in record.logs:
        for bucket, size in log.sizes.items():
            place = log.unit, bucket
            since = snapshots[place].epoch if place in snapshots else 0
            if log.epoch > since:
                first, sum_ = logged.get(place, (since or log.epoch - 1, 0))
                logged[place] = first, sum_ + size
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for (unit, bucket), (since, size) in logged.items():
        held = snapshots.get((unit, bucket))
        likely = size if held is None else max(size, held.size)
        found.setdefault(unit, {})[bucket] = since, likely
    return found


def tidied(record: Record, snapshots: Iterable[Snapshot]) -> Record:
    """Return a record with new snapshots and without what they replace.

    >>> logs = (Log("u0", "a", 1, {0: 5}), Log("u0", "b", 2, {0: 5}))
    >>> record = Record(2, turns={1: 1, 2: 2}, logs=logs)
    >>> [log.file for log in tidied(record, [Snapshot("u0", "s", 1, 0, 1, 5)]).logs]
    ['b']
    """
    held = {(one.unit, one.bucket): one for one in record.snapshots}
    held.update({(one.unit, one.bucket): one for one in snapshots})
    epochs = {place: one.epoch for place, one in held.items()}
    logs = tuple(
        log
        for log in record.logs
        if any(log.epoch > epochs.get((log.unit, b), 0) for b in log.sizes)
    )
    oldest = min((log.epoch for log in logs), default=record.epoch) - 1
    turns = {epoch: turn for epoch, turn in record.turns.items() if epoch >= oldest}
    return replace(record, snapshots=tuple(held.values()), logs=logs, turns=turns)
