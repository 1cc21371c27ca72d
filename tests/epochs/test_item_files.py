"""The failures that an external sink had in an epoch are kept beside its items."""

from __future__ import annotations

import pickle

import pytest

from anabranch.epochs.checkpoint.seal import NO_KEY, Seal
from anabranch.epochs.item_files import read_refused, write_refused
from anabranch.epochs.transport.pickle import PickledNames, Pickler
from anabranch.errors import CheckpointError
from anabranch.graph.graph import Graph
from anabranch.graph.site import Site
from anabranch.runtime.failures import Failure

KEYED = Seal(b"a secret that nobody else knows")
SEALS = [NO_KEY, KEYED]
FAILURES = tuple(
    Failure("write", Site("job.py", 3), n, f"item {n}", ValueError("no"))
    for n in range(3)
)


@pytest.fixture
def pickler() -> Pickler:
    return Pickler(Graph(()), PickledNames(own=True), lasting=True)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "000000003-1000000000008-4-refused.pickle"


class Attack:
    """Raises an error where it is unpickled."""

    def __reduce__(self):
        return exec, ("raise SystemExit",)


@pytest.mark.parametrize("seal", SEALS)
def test_failures_are_read_as_they_were_written(path, pickler, seal):
    assert () == read_refused(path, pickler, seal, noted=False)

    write_refused(path, FAILURES, pickler, seal)

    found = read_refused(path, pickler, seal, noted=False)
    assert [(one.item, one.where) for one in FAILURES] == [
        (one.item, one.where) for one in found
    ]


@pytest.mark.parametrize("seal", SEALS)
def test_every_flipped_bit_is_found(path, pickler, seal):
    write_refused(path, FAILURES, pickler, seal)
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(CheckpointError, match=r"refused\.pickle cannot be read"):
            read_refused(path, pickler, seal, noted=False)


@pytest.mark.parametrize("sealed", [False, True])
def test_with_a_key_nothing_that_others_wrote_is_unpickled(path, pickler, sealed):
    attack = pickle.dumps(Attack())
    digest = NO_KEY.digest(path.name.encode() + attack).encode() + b"\n"
    path.write_bytes(digest + attack if sealed else attack)

    with pytest.raises(CheckpointError, match="was written without a key"):
        read_refused(path, pickler, KEYED, noted=False)


def test_with_a_key_failures_of_another_epoch_are_refused(path, pickler):
    write_refused(path, FAILURES, pickler, KEYED)
    other = path.with_name(path.name.replace("03-", "04-"))
    path.rename(other)

    with pytest.raises(CheckpointError, match="its content is not what was written"):
        read_refused(other, pickler, KEYED, noted=False)


def test_failures_of_earlier_releases_are_read_without_a_key(path, pickler):
    path.write_bytes(pickler.dumps_state(FAILURES))

    assert 3 == len(read_refused(path, pickler, NO_KEY, noted=False))
