"""Digests of values: the same in all processes, different for different values."""

import os
import subprocess
import sys
import threading

import pytest

from anabranch.epochs.transport.digests import digest_value

VALUES = """
import datetime, decimal, enum, functools, operator, re
from collections import deque, namedtuple

class Conf:
    unit = "cm"
    def __init__(self, rate): self.rate = rate
class Slots:
    __slots__ = ("rate",)
    def __init__(self, rate): self.rate = rate
class Colour(enum.Enum):
    RED, BLUE = 1, 2
Pair = namedtuple("Pair", "left right")
def scale(n, by=[2]): return n * by[0]
def scale_by(by): return lambda n: n * by

looped = [1]
looped.append(looped)
ONE = [
    1, 1.0, True, "a", b"a", None, -0.0, 2**80, (1,), [1, 2], {"a": 1}, {"a", "b", "c"},
    deque([1], 3), datetime.timedelta(1), decimal.Decimal("1.0"), re.compile("a"),
    Conf(1), Slots(1), Colour.RED, Pair(1, 2), scale, scale_by(2), lambda: 1, lambda: 2, len, Conf, looped,
    functools.partial(scale, 1), operator.itemgetter, re, frozenset(["x", "y"]),
    functools.lru_cache(scale), Conf(1).__init__, "\\ud800",
]
"""


def digest_elsewhere(folder, names):
    """Return the digests that another process makes, with other hashes."""
    (folder / "some_values.py").write_text(VALUES)
    code = (
        "import some_values\n"
        "from anabranch.epochs.transport.digests import digest_value\n"
        f"for one in some_values.{names}: print(digest_value(one).data.hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.fixture
def values(tmp_path, monkeypatch):
    (tmp_path / "some_values.py").write_text(VALUES)
    monkeypatch.syspath_prepend(tmp_path)
    import some_values

    yield some_values
    del sys.modules["some_values"]


def test_the_same_values_have_the_same_digests_in_all_processes(tmp_path, values):
    here = [digest_value(one).data.hex() for one in values.ONE]

    assert digest_elsewhere(tmp_path, "ONE") == here


def test_different_values_have_different_digests(values):
    digests = [digest_value(one) for one in values.ONE]

    assert len(set(digests)) == len(values.ONE)


def change_attribute(values):
    values.ONE[16].rate = 2


def change_slot(values):
    values.ONE[17].rate = 2


def change_default(values):
    values.scale.__defaults__[0].append(3)


def change_inside(values):
    values.looped.insert(1, 5)


@pytest.mark.parametrize(
    "change",
    [change_attribute, change_slot, change_default, change_inside],
)
def test_a_change_inside_a_value_changes_its_digest(values, change):
    before = digest_value(values.ONE)

    change(values)

    assert digest_value(values.ONE) != before


class Hooked:
    def __reduce__(self):
        return Hooked, ()


PARTS = {
    "an iterator": iter([1]),
    "a lock": threading.Lock(),
    "a class with a hook": Hooked(),
    "more than is looked at": list(range(100_000)),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_digest_tells_that_it_does_not_cover_all(part):
    assert not digest_value([1, part]).whole
    assert digest_value([1, {"a": (2.0,)}]).whole
