"""The checkpoint directory, as the driver uses and maintains it.

::

    DIR/program.json        whose checkpoint this is, and its identity
    DIR/lock                held while a job runs
    DIR/runs/7              the seventh run that used it
    DIR/commits/N.json      the record of epoch N: it makes the epoch real
    DIR/parts/N-TURN.json   the parts that file sinks had published by epoch N
    DIR/manifests/N-TURN.json  the files of state that later records do not name themselves
    DIR/deliveries/N-TURN*  what epoch N has for sinks in the driver and for external
                            ones, until they have it; then N-TURN.delivered
    DIR/state/UNIT/*.arrow  change logs and snapshots

A store has no locks. There the run with the largest number owns the checkpoint: an
older one finds that number, or the record that it wanted to write, and ends. Until it
does, it may still name the files of its next epoch, so these are left alone.

Each epoch writes about as many bytes of snapshots as of logs, oldest snapshot first. So
the work is spread evenly, no epoch has to write everything, and the logs kept are about
as large as the state itself.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import os
import re
import shlex
import uuid
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from anabranch.connectors.storage import Location, StorePath, locate
from anabranch.epochs.checkpoint.files import checkpoint_errors, durably, epoch_of_file
from anabranch.epochs.checkpoint.program import (
    differences,
    number_types,
    suggest_additions,
)
from anabranch.epochs.checkpoint.record import (
    FORMAT,
    Log,
    PartList,
    PartSum,
    Record,
    Snapshot,
    count_as_one,
    find_epochs,
    manifest_to_json,
    read_program,
    read_record,
    record_path,
    to_json,
)
from anabranch.epochs.checkpoint.seal import KEY_VARIABLE, Seal, describe_damage
from anabranch.epochs.faults import reach
from anabranch.epochs.state.buckets import Ranges, divide_ranges, stores_of
from anabranch.epochs.state.restore import name_states
from anabranch.errors import CheckpointError
from anabranch.private import why_not_private

OLDEST = 48  # epochs that a log may wait for a snapshot, however small the logs are
_LEAST = 1 << 18  # bytes: a smaller snapshot costs as much as one of this size

_NONE = 0, 0.0, 1  # epoch, bytes and files of a missing snapshot

Place = tuple[str, int]  # unit, store


class Upkeep:
    """Chooses the stores whose buckets the next epoch writes as snapshots.

    It follows the logs and snapshots of each epoch incrementally, so that the cost
    depends on what an epoch wrote, not on the number of buckets.
    """

    def __init__(self) -> None:
        # unit -> bytes of snapshots due for its logs
        self._allowed: dict[str, int] = {}
        self._buckets = 0  # last record followed
        # by unit and store: epoch, bytes and files
        self._snapshots: dict[str, dict[int, tuple[int, float, int]]] = {}
        # the same: first change, bytes
        self._logged: dict[str, dict[int, tuple[int, float]]] = {}

    def due(
        self, record: Record, new: Iterable[Log], snapshots: Iterable[Snapshot] = ()
    ) -> frozenset[Place]:
        """Return the snapshots due after `record`, which has `new` logs."""
        new = tuple(new)
        if self._buckets == record.buckets:
            self._follow(new, snapshots)
        else:
            self._buckets = record.buckets
            self._snapshots, self._logged = {}, {}
            self._follow(record.logs, record.snapshots)
        for log in new:
            self._allowed[log.unit] = self._allowed.get(log.unit, 0) + log.size
        chosen: set[Place] = set()
        for unit, stores in self._logged.items():
            by_age = [(since, store) for store, (since, _) in stores.items()]
            heapq.heapify(by_age)
            for rank in range(len(by_age)):
                since, store = heapq.heappop(by_age)
                changed = stores[store][1]
                # A state is at most as large as its last snapshot and the changes
                # since; the larger of the two is at least half of that.
                _, held, files = self._snapshots.get(unit, {}).get(store, _NONE)
                cost = max(int(max(changed, held)), _LEAST * files)
                aged = rank == 0 and record.epoch - since >= OLDEST
                if self._allowed.get(unit, 0) < cost and not aged:
                    break
                chosen.add((unit, store))
                self._allowed[unit] = max(0, self._allowed.get(unit, 0) - cost)
        return frozenset(chosen)

    def _follow(self, logs: Iterable[Log], snapshots: Iterable[Snapshot]) -> None:
        """Update the stores that have changed since their snapshot."""
        for one in snapshots:
            whole = self._snapshots.setdefault(one.unit, {})
            for store, share in self._divide(one):
                epoch, size, files = whole.get(store, _NONE)
                if one.epoch >= epoch:
                    # Each replica writes the snapshot of its own buckets.
                    if one.epoch > epoch:
                        size = files = 0
                    whole[store] = one.epoch, size + one.size * share, files + 1
                    self._logged.get(one.unit, {}).pop(store, None)
        for log in logs:
            stores = self._logged.setdefault(log.unit, {})
            whole = self._snapshots.get(log.unit, {})
            for store, share in self._divide(log):
                since = whole.get(store, _NONE)[0]
                if log.epoch > since:
                    first, size = stores.get(store, (since or log.epoch - 1, 0.0))
                    stores[store] = first, size + log.size * share

    def _divide(self, held: Log | Snapshot) -> Sequence[tuple[int, float]]:
        """Return the stores of a file's buckets, each with its share."""
        if held.buckets == 1:
            return [(0, 1.0)]
        return _share_stores(held.held, held.buckets, self._buckets)


@lru_cache(maxsize=1 << 15)
def _share_stores(
    ranges: Ranges, fewer: int, buckets: int
) -> tuple[tuple[int, float], ...]:
    stores = stores_of(divide_ranges(ranges, fewer, buckets), buckets)
    total = sum(stores.values())
    return tuple((store, count / total) for store, count in stores.items())


def refuse_untrusted(directory: Location, seal: Seal) -> None:
    """Refuse a checkpoint that others could have changed, unless a key protects it.

    States are pickles: anyone who can write them can run code in the job. In a store, its
    own access rules apply.
    """
    if seal.key is not None or isinstance(directory, StorePath):
        return
    for path in (directory, *(directory / name for name in _FOLDERS)):
        why = why_not_private(path) if path.exists() else None
        if why is not None:
            msg = (
                "a checkpoint is unpickled, so only its user may have write access; "
                f"{path}: {why}; if you trust the others, remove their access (chmod "
                f"-R go-w {directory}); or set {KEY_VARIABLE} "
                f"from the first run on"
            )
            raise CheckpointError(msg)


TURNS = 10**12  # more than one run has; later runs start above
_RECORDS = 2  # that are kept
_SWEPT = 64  # epochs between searches for files of lost attempts
_OWN = {  # the names that are ours, by directory
    "runs/*": re.compile(r"\d+"),
    "commits/*": re.compile(r"\d+\.json"),
    "deliveries/*": re.compile(r"\d+(-\d+)*(-refused)?\.(pickle|items|delivered)"),
    "parts/*": re.compile(r"\d+-\d+\.json"),
    "manifests/*": re.compile(r"\d+-\d+\.json"),
    "state/*/*": re.compile(r".*\.arrow"),
}


_FOLDERS = ("runs", "commits", "deliveries", "parts", "manifests", "state")
_REPEATABLE = ("to_list", "for_each", "write_csv", "write_jsonl", "write_parquet")
_LISTED = 128  # parts listed in the record itself
_LISTED_STATES = 256  # state files listed in the record itself
_MANIFESTS = 256  # manifests of a record; then one replaces all


_DELIVERED = ".delivered"


def _mark_of(path: Location) -> Location:
    """Return the file that says that sinks have received the items of another."""
    return path.with_suffix(_DELIVERED)


class Damage(NamedTuple):
    """A committed epoch that can no longer be read, and why."""

    epoch: int
    error: CheckpointError


class Checkpoint:
    """A checkpoint opened for one run; `last` is the record to resume from.

    That is the newest intact record, with all files it names. `damage` lists the later
    ones, which run again.
    """

    def __init__(self, directory: str, program: Mapping[str, Any]) -> None:
        place = locate(directory)
        self.directory = place if isinstance(place, StorePath) else place.resolve()
        self.seal = Seal.from_environment()
        self.damage: list[Damage] = []
        self._manifests: tuple[PartList, ...] = ()  # of this run
        self._listed: dict[tuple[str, str], str] = {}  # file of state -> manifest
        self._live: Counter[str] = Counter()  # needed files that a manifest lists
        self._unlisted: tuple[Log | Snapshot, ...] = ()  # others of the last record
        self._gone: frozenset[tuple[str, str]] | None = None  # of the record before it
        with checkpoint_errors(self.directory):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            refuse_untrusted(self.directory, self.seal)
            for name in _FOLDERS:
                (self.directory / name).mkdir(mode=0o700, exist_ok=True)
            self._lock: int | None = self._take_lock()
        try:
            with checkpoint_errors(self.directory):
                self._refuse_foreign()
                self.identity = self._check_program(program)
                self.last, self._before = self._find_whole(program)
                # What the last epoch has for driver sinks, until they have received it:
                self.waiting = self.find_delivery(self.last)
                self.run = self._next_run()
                self._sweep()
        except BaseException:
            self.close()
            raise

    @property
    def states_name(self) -> str:
        """The name of the states on hosts."""
        return name_states(self.identity, self.directory)

    @property
    def first_turn(self) -> int:
        """The number of the first try in this run: above those of all earlier runs."""
        return self.run * TURNS

    def _find_whole(
        self, program: Mapping[str, Any]
    ) -> tuple[Record | None, Record | None]:
        """Return the newest intact record and the one before it, if any."""
        whole: list[Record] = []
        for epoch in find_epochs(self.directory):
            try:
                whole.append(self._read_whole(epoch, program))
            except CheckpointError as error:
                if self._is_out_of_reach(error):
                    raise
                if not whole:
                    self.damage.append(Damage(epoch, error))
        if self.damage:
            self._refuse_or_warn(program, whole[0] if whole else None)
        last, before, *_ = (*whole, None, None)
        return last, before

    def _is_out_of_reach(self, error: CheckpointError) -> bool:
        """Tell whether the store did not answer: then nothing is known to be
        damaged.
        """
        cause = error.__cause__
        if isinstance(cause, FileNotFoundError) or not isinstance(cause, OSError):
            return False
        return isinstance(self.directory, StorePath)

    def _read_whole(self, epoch: int, program: Mapping[str, Any]) -> Record:
        """Return the record of an epoch; refuse it if a file it names is damaged."""
        places = program["states"].values()
        keyless = {place["unit"] for place in places if not place["region_key"]}
        record = count_as_one(read_record(self.directory, epoch, self.seal), keyless)
        for held in record.held:
            path = self.directory / "state" / held.unit / held.file
            try:
                self.seal.check(path, path.read_bytes(), held.digest)
            except OSError as error:
                raise describe_damage(path, error) from error
        waiting = self.find_delivery(record)
        if waiting is not None:
            self.seal.check(waiting, waiting.read_bytes(), record.delivery)
        self.list_published(record)
        return record

    def _refuse_or_warn(self, program: Mapping[str, Any], last: Record | None) -> None:
        """Refuse to repeat epochs that an external sink has already received."""
        newest = self.damage[0]
        if last is None:
            raise newest.error
        counting = [
            f"{name!r} ({one['kind']})"
            for name, one in program["operators"].items()
            if one["role"] == "sink" and one["kind"] not in _REPEATABLE
        ]
        if counting:
            msg = (
                f"{newest.error}; the record of epoch {last.epoch} is whole, but the job "
                f"cannot go back to it: {', '.join(counting)} may have epoch "
                f"{newest.epoch} already"
            )
            raise CheckpointError(msg)
        causes = "; ".join(str(one.error).split(";")[1].strip() for one in self.damage)
        warnings.warn(
            f"{self.directory} is damaged and goes back to epoch {last.epoch}: {causes}. "
            f"Lost: what was recorded of epochs {last.epoch + 1} to {newest.epoch}. They "
            f"run again: file sinks get their rows once, for_each gets theirs again.",
            RuntimeWarning,
            stacklevel=2,
        )

    def set_damage_aside(self) -> None:
        """Hide the records of damaged epochs, which run again."""
        for epoch, _ in self.damage:
            path = record_path(self.directory, epoch)
            path.replace(path.with_name(f".{path.name}.damaged"))  # type: ignore[arg-type]
        self.damage = []

    def list_published(self, record: Record) -> Iterator[PartSum]:
        """Yield the parts of file sinks that a record and the lists before it name."""
        parts = list(record.sums)
        listed = record.listed
        while listed is not None:
            path = self.directory / "parts" / listed.file
            try:
                data = path.read_bytes()
                self.seal.check(path, data, listed.digest)
                found = json.loads(data)
                parts += [PartSum(*one) for one in found["parts"]]
                listed = None if found["before"] is None else PartList(*found["before"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise describe_damage(path, error) from error
        return iter(parts)

    def list_parts(self, record: Record) -> Record:
        """Move the parts that a record names to a list of their own, if there are
        many.
        """
        if len(record.sums) < _LISTED:
            return record
        file = f"{record.epoch:09}-{record.turn}.json"
        data = json.dumps({"before": record.listed, "parts": record.sums}).encode()
        with (
            checkpoint_errors(self.directory),
            durably(self.directory / "parts" / file) as out,
        ):
            out.write(data)
        return replace(record, sums=(), listed=PartList(file, self.seal.digest(data)))

    def _take_lock(self) -> int | None:
        """Return the lock that keeps other jobs out; a store has none."""
        if isinstance(self.directory, StorePath):
            return None
        descriptor = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            msg = (
                f"only one job at a time may use a checkpoint; another one is using "
                f"{self.directory}; wait for its end, or take another directory"
            )
            raise CheckpointError(msg) from error
        return descriptor

    def _refuse_foreign(self) -> None:
        """Refuse a directory with files that no job wrote; hidden ones are ignored."""
        for directory, name in _OWN.items():
            for path in self._find(directory):
                if path.name.startswith(".") or name.fullmatch(path.name):
                    continue
                msg = (
                    f"a checkpoint must hold nothing but its own files; {path} is none "
                    f"of them; move it elsewhere, or take another directory"
                )
                raise CheckpointError(msg)

    def _check_program(self, program: Mapping[str, Any]) -> str:
        """Return the identity; refuse a checkpoint of another program."""
        path = self.directory / "program.json"
        if not path.exists():
            if find_epochs(self.directory):
                msg = (
                    f"a checkpoint must name its program; {path} is missing; "
                    f"put it back, or start again with an empty directory"
                )
                raise CheckpointError(msg)
            identity = uuid.uuid4().hex[:12]
            made = {"format": FORMAT, "identity": identity, "program": program}
            self._describe(made)
            self.type_numbers = tuple(range(len(program["types"])))
            return identity
        found = read_program(self.directory, self.seal)
        try:
            told = json.loads(json.dumps(program))
            changed = differences(found["program"], told)
            additions = suggest_additions(found["program"], told)
        except (KeyError, TypeError, AttributeError) as error:
            msg = (
                f"a checkpoint must be whole; {path} is damaged ({error!r}); start "
                "again "
                f"with an empty directory, or put the file back"
            )
            raise CheckpointError(msg) from error
        if changed:
            lines = "\n".join(f"  {line}" for line in changed)
            msg = (
                f"a checkpoint can only be used by the program that made it; "
                f"{self.directory} was made by another one:\n{lines}\n"
                f"take these changes back, or start again with an empty directory"
                f"{self._describe_way_out(additions)}"
            )
            raise CheckpointError(msg)
        known = found["program"]["types"]
        numbers, types = number_types(known, told["types"])
        self.type_numbers = tuple(numbers)
        # additions of this run that older releases cannot read
        if found["format"] != FORMAT or types != known:
            described = {**found["program"], "types": types}
            self._describe({**found, "format": FORMAT, "program": described})
        return str(found["identity"])

    def _describe_way_out(self, additions: list[str]) -> str:
        """Return how to continue if types have only gained attributes."""
        if not additions:
            return ""
        words = " ".join(f"--add {shlex.quote(one)}" for one in additions)
        return (
            f"; for added attributes, which must have defaults, copy it with `anabranch "
            f"checkpoint migrate {self.directory} {words} -o NEW` and continue with "
            "the copy"
        )

    def _describe(self, described: Mapping[str, Any]) -> None:
        with durably(self.directory / "program.json") as file:
            file.write(self.seal.attach(json.dumps(described, indent=1).encode()))

    def _next_run(self) -> int:
        """Return the number of this run, unique among all runs."""
        runs = self.directory / "runs"
        while True:
            number = 1 + self._latest_run()
            try:
                with durably(runs / str(number), new=True) as file:
                    file.write(uuid.uuid4().bytes)
            except FileExistsError:
                continue
            for run in self._runs():
                if run < number:
                    (runs / str(run)).unlink(missing_ok=True)
            return number

    def _runs(self) -> list[int]:
        names = (path.name for path in self._find("runs/*"))
        return [int(name) for name in names if name.isdecimal()]

    def _find(self, pattern: str) -> list[Location]:
        """Return the files of the checkpoint that match a pattern."""
        return [*self.directory.glob(pattern)]

    def _latest_run(self) -> int:
        return max(self._runs(), default=0)

    def _describe_other_job(self) -> CheckpointError:
        return CheckpointError(
            f"only one job at a time may use a checkpoint; another one has gone on "
            f"with {self.directory}; this one ends"
        )

    def _sweep(self) -> None:
        """Remove the leftovers of killed runs."""
        if isinstance(self.directory, StorePath):
            if self.last is not None:
                self._forget_attempts(self.last)
            return
        needed = self._find_needed()
        for path in self._find("state/*/*"):
            ours = path.suffix in (".arrow", ".tmp")
            if ours and (path.parent.name, path.name) not in needed:
                path.unlink(missing_ok=True)
        for path in self._find("*/.*.tmp"):
            path.unlink(missing_ok=True)
        manifests = self._find_manifests()
        for path in self._find("manifests/*.json"):
            if path.name not in manifests:
                path.unlink(missing_ok=True)
        for path in self._find("deliveries/*"):
            if not self._is_kept(path):
                path.unlink(missing_ok=True)

    def _find_needed(self) -> frozenset[tuple[str, str]]:
        """Return the state files named by the last record or the one before it."""
        kept = (self.last, self._before)
        return frozenset().union(*(one.files for one in kept if one is not None))

    def find_delivery(self, record: Record | None) -> Location | None:
        """Return where an epoch's items wait for sinks, if they do.

        They do not if the file is marked as delivered. If it is gone without a mark,
        nobody knows whether sinks have the items.
        """
        if record is None:
            return None
        if record.delivery_file is None:  # of an earlier release, which had no marks
            epoch = f"{record.epoch:09}"
            names = f"{epoch}-{record.turn}.pickle", f"{epoch}.pickle"
            paths = (self.deliveries / name for name in names)
            return next((path for path in paths if path.exists()), None)
        path = self.deliveries / record.delivery_file
        if _mark_of(path).exists():
            return None
        if not path.exists():
            why = "it is gone, and nothing says that sinks have received its items"
            raise describe_damage(path, why)
        return path

    def _is_kept(self, path: Location) -> bool:
        """Tell whether a file belongs to the delivery that waits, or marks an end."""
        waiting = self.waiting
        if waiting is not None and path.name.startswith(
            (f"{waiting.stem}-", f"{waiting.stem}.")
        ):
            return True
        kept = (self.last, self._before)
        return path.name in {_mark_of(one).name for one in self._list_deliveries(kept)}

    def _list_deliveries(self, records: Iterable[Record | None]) -> list[Location]:
        """Return the files that records name for their items."""
        named = (None if one is None else one.delivery_file for one in records)
        return [self.deliveries / name for name in named if name is not None]

    def mark_delivered(self) -> None:
        """Mark the items that sinks have received.

        If a kill undoes the mark, they are delivered once more; so it must not be
        possible that neither the items nor the mark are there.
        """
        waiting, self.waiting = self.waiting, None
        if waiting is None:
            return
        with checkpoint_errors(self.directory):
            if isinstance(waiting, StorePath):
                waiting.with_suffix(_DELIVERED).touch()
                waiting.unlink(missing_ok=True)
                return
            mark = waiting.with_suffix(_DELIVERED)
            try:
                os.truncate(waiting.replace(mark), 0)
            except FileNotFoundError:  # removed from outside since it was written
                with durably(mark):
                    pass

    @property
    def deliveries(self) -> Location:
        """Where items wait for sinks."""
        return self.directory / "deliveries"

    def refuse_other_run(self) -> None:
        """End this run if a later one has taken over."""
        with checkpoint_errors(self.directory):
            if self._latest_run() > self.run:
                raise self._describe_other_job()

    def commit(self, record: Record, delivery: bytes | None) -> None:
        """Commit an epoch: from now on it has happened, and will not run again."""
        with checkpoint_errors(self.directory):
            self._commit(record, delivery)

    def _commit(self, record: Record, delivery: bytes | None) -> None:
        if delivery is not None:
            name = f"{record.epoch:09}-{record.turn}.pickle"
            digest = self.seal.digest(delivery)
            record = replace(record, delivery=digest, delivery_file=name)
            self.waiting = self.directory / "deliveries" / name
            with durably(self.waiting) as file:
                file.write(delivery)
        if self._latest_run() > self.run:
            raise self._describe_other_job()
        try:
            added, lost = record.compare(self.last or Record())
            record, short = self._list_states(record, added, lost)
            with durably(record_path(self.directory, record.epoch), new=True) as file:
                file.write(self.seal.attach(to_json(short)))
                reach("half-recorded", record.epoch)
        except FileExistsError as error:
            raise self._describe_other_job() from error
        oldest, self._before, self.last = self._before, self.last, record
        self._forget(oldest, record)
        self._gone = lost

    def _list_states(
        self,
        record: Record,
        added: Iterable[Log | Snapshot],
        lost: Collection[tuple[str, str]],
    ) -> tuple[Record, Record]:
        """Return a record with its manifests, and the record as it is written.

        The latter leaves out the state files that a manifest lists. If there are many
        others, they get a manifest. A manifest is named until none of its files is
        needed; what else it lists is superseded, which readers find out.
        """
        for name in lost:
            if (manifest := self._listed.pop(name, None)) is not None:
                self._live[manifest] -= 1
        if lost:
            named = self._manifests
            self._manifests = tuple(one for one in named if self._live[one.file] > 0)
        if self._manifests or self._unlisted:
            kept = [one for one in self._unlisted if (one.unit, one.file) not in lost]
            new = [*kept, *added]
        else:  # the first record of this run
            new = [*record.held]
        if len(new) >= _LISTED_STATES:
            if len(self._manifests) >= _MANIFESTS:
                new, self._manifests = [*record.held], ()
                self._listed.clear()
                self._live.clear()
            file = f"{record.epoch:09}-{record.turn}.json"
            data = manifest_to_json(new)
            with durably(self.directory / "manifests" / file) as out:
                out.write(data)
            self._manifests += (PartList(file, self.seal.digest(data)),)
            self._listed.update(((one.unit, one.file), file) for one in new)
            self._live[file] = len(new)
            new = []
        self._unlisted = tuple(new)
        record = replace(record, manifests=self._manifests)
        logs = tuple(one for one in new if isinstance(one, Log))
        snapshots = tuple(one for one in new if isinstance(one, Snapshot))
        return record, replace(record, logs=logs, snapshots=snapshots)

    def _find_manifests(self) -> frozenset[str]:
        """Return the manifests named by the last record or the one before it."""
        kept = (self.last, self._before)
        return frozenset(
            m.file for one in kept if one is not None for m in one.manifests
        )

    def _forget(self, oldest: Record | None, record: Record) -> None:
        """Remove what neither this record nor the one before it needs.

        The one before is kept complete: the job falls back to it if this one is
        damaged.
        """
        if oldest is not None:
            gone = self._gone
            if gone is None:  # it belongs to an earlier run
                gone = oldest.files - self._find_needed()
            self._remove_states(gone)
            names = {one.file for one in oldest.manifests}
            for file in names - self._find_manifests():
                (self.directory / "manifests" / file).unlink(missing_ok=True)
            if not isinstance(self.directory, StorePath):  # else when swept
                for path in self._list_deliveries([oldest]):
                    _mark_of(path).unlink(missing_ok=True)
        old = record_path(self.directory, record.epoch - _RECORDS)
        old.unlink(missing_ok=True)
        if record.epoch % _SWEPT == 0 or record.complete:
            self._forget_attempts(record)

    def _remove_states(self, files: Iterable[tuple[str, str]]) -> None:
        """Remove state files; there may be thousands."""
        place = self.directory / "state"
        if isinstance(place, StorePath):
            for unit, file in files:
                (place / unit / file).unlink(missing_ok=True)
            return
        folder = str(place)
        for unit, file in files:
            try:  # neither a path nor a context for each
                os.unlink(f"{folder}/{unit}/{file}")  # noqa: PTH108
            except FileNotFoundError:
                continue

    def _forget_attempts(self, record: Record) -> None:
        """Remove the files of attempts that lost, for committed epochs."""
        needed = self._find_needed()
        for path in self._find("state/*/*"):
            epoch = epoch_of_file(path.name)
            over = epoch is not None and epoch <= record.epoch
            if over and (path.parent.name, path.name) not in needed:
                path.unlink(missing_ok=True)
        manifests = self._find_manifests()
        for path in (
            *self._find("manifests/*.json"),
            *self._find("deliveries/*.*"),
        ):
            epoch_of_path = path.stem.partition("-")[0]
            if not epoch_of_path.isdecimal() or int(epoch_of_path) > record.epoch:
                continue
            if path.name not in manifests and not self._is_kept(path):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the checkpoint."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
