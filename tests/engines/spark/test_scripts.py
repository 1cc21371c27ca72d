"""What `python script.py` defines is the same on both sides, without a JVM.

A script packs its program and sends values; another process unpacks it, applies the
program's function to each value and sends the results back.
"""

import os
import subprocess
import sys

import pytest

from anabranch.epochs.transport.pickle import PickledNames

SCRIPT = """
from __future__ import annotations
import abc, enum, functools, numbers, subprocess, sys
from collections import namedtuple
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NewType, Optional

import anabranch as ab
from anabranch.epochs.layout import lay_out
from anabranch.epochs.transport.pickle import Pickler
from anabranch.epochs.transport.ship import pack
from anabranch.epochs.task import Spec
from anabranch.language.drafts import build_graph
from anabranch.runtime.ambient import capture_settings
from anabranch.connectors.files.arrow_items import form_of

Money = float
Count = NewType("Count", int)
Pair = namedtuple("Pair", "left right")

def shift(n): return n + 1

class Side(enum.Enum):
    BUY = "b"
    SELL = "s"

class Handler(enum.Enum):
    SHIFT = (shift, "by one")

class Rights(enum.Flag):
    READ = 1
    WRITE = 2

class Trade(NamedTuple):
    volume: Optional[int]
    price: Money

class Noted(Trade):
    pass

@dataclass(frozen=True, slots=True)
class Slotted:
    side: Side

@dataclass
class Doubled:
    n: int
    twice: int = field(init=False)
    def __post_init__(self): self.twice = 2 * self.n

class Picky:
    def __new__(cls, name): return super().__new__(cls)
    def __init__(self, name): self.name = name
    def __eq__(self, other): return type(other) is Picky and other.name == self.name

class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

class Square(Shape):
    class Corner(NamedTuple):
        x: int
    def __init__(self, side): self.side = side
    def area(self): return self.side ** 2
    def __eq__(self, other): return type(other) is Square and other.side == self.side

class Rectangle:
    def __init__(self, side): self.side = side
    def __eq__(self, other): return type(other) is Rectangle and other.side == self.side
    @functools.cached_property
    def area(self): return self.side * self.side
    @functools.singledispatchmethod
    def plus(self, other): return "other"
    @plus.register
    def _(self, other: int): return self.side + other

numbers.Number.register(Square)  # a class of Python, which has its own list
numbers.Real.register(bytearray)

class Refused(Exception):
    def __init__(self, item, code):
        super().__init__(f"{item} is refused")
        self.code = code

class Unmentioned(NamedTuple):
    n: int

@functools.lru_cache
def fibonacci(n): return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

@functools.singledispatch
def tell(value): return "other"

@tell.register
def _(value: int): return "a number"

def local():
    class Local(NamedTuple):
        n: int
    return Local

Local = local()
noted = Noted(1, 2.0)
noted.remark = "kept"

def is_number(value): return isinstance(value, numbers.Number)

@ab.declare(state="stateless")
def change(value):
    match value:
        case Side(): return value is Side.BUY, Side.SELL
        case Handler(): return value.value[0](1), Handler.SHIFT
        case Rights(): return Rights.READ in value, value
        case Noted(): return value.remark, value
        case Trade(): return value._replace(price=Money(1))
        case Slotted(): return value.side is Side.SELL, value
        case Square(): return isinstance(value, Shape), value.area(), is_number(value), value
        case Rectangle(): return value.area, value.plus(1), value.plus(""), value
        case Square.Corner(): return value, Square.Corner(2)
        case Refused(): return value.code, value.args, type(value) is Refused
        case Pair(): return Pair(value.right, value.left)
        case int(): return fibonacci(value), Count(value), tell(value)
        case Doubled(): return value.twice, Doubled(value.n + 1)
        case bytearray(): return is_number(value), value
    return value

VALUES = [
    Side.BUY, Handler.SHIFT, Rights.READ | Rights.WRITE, Trade(None, 2.5), noted,
    Slotted(Side.SELL), Doubled(4), Picky("a"), Square(3), Square.Corner(1), Rectangle(2),
    Refused(7, code=3), Pair(1, 2), 12, Unmentioned(5), Local(6), bytearray(b"a"),
    [Trade(1, 1.0), {"side": Side.SELL}],
]

def kinds(value):
    parts = value if type(value) in (tuple, list) else ()
    return [type(value), *(kind for part in parts for kind in kinds(part))]

def main(worker):
    sink = ab.from_iterable(VALUES).map(change, name="change").to_list()
    types = ab.from_iterable([], Trade).to_list()
    graph = build_graph([sink, types])
    plan = ab.compile(sink, types).plan
    settings = capture_settings()
    spec = Spec("job", lay_out(graph, plan), False, "", {}, settings)
    shipped, names = pack(spec)
    pickler = Pickler(graph, names)
    Path("shipped").write_bytes(shipped)
    Path("values").write_bytes(pickler.dumps(VALUES))
    subprocess.run([sys.executable, "-c", worker], check=True)
    results, columns = pickler.loads(Path("results").read_bytes())
    for value, result in zip(VALUES, results, strict=True):
        expected = change(value)
        assert repr(expected) == repr(result) or expected == result, (expected, result)
        assert kinds(expected) == kinds(result), (expected, result)
    assert form_of(Trade).names == columns, columns
    print("all the same")

if __name__ == "__main__":
    main(sys.argv[1])
"""

WORKER = """
from pathlib import Path
from anabranch.epochs.transport.pickle import Pickler
from anabranch.epochs.transport.ship import unpack
from anabranch.connectors.files.arrow_items import form_of

spec, names = unpack(Path("shipped").read_bytes())
graph = spec.layout.graph
pickler = Pickler(graph, names)
(change,) = [code.function for code in graph["change"].kind.user_code]
values = pickler.loads(Path("values").read_bytes())
(trade,) = pickler.classes
with spec.settings.in_force():
    results = list(map(change, values)), form_of(trade).names
Path("results").write_bytes(pickler.dumps(results))
"""


def run_script(folder, name, *arguments, paths=()):
    path = os.pathsep.join(entry for entry in (*paths, *sys.path) if entry)
    return subprocess.run(
        [sys.executable, name, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_classes_of_a_script_cross_to_a_worker_and_back_as_themselves(tmp_path):
    (tmp_path / "job.py").write_text(SCRIPT)

    done = run_script(tmp_path, "job.py", WORKER)

    assert "all the same\n" == done.stdout, done.stderr


def test_a_name_does_not_depend_on_how_the_script_was_started():
    class City: ...

    assert "job:City" == PickledNames(main="job").spell("__main__", "City")
    assert "job:City" == PickledNames().spell("job", "City")
    assert City is PickledNames({"job:City": City}).find("job:City")


RESUMED = """
import sys
from dataclasses import dataclass
import anabranch as ab

FAILS = len(sys.argv) > 1

@dataclass(frozen=True)
class City:  # only items are of it: the program does not mention it
    name: str

@dataclass(frozen=True)
class Seen:
    n: int

def step(seen, city):
    if seen == Seen(6) and FAILS:
        raise ValueError("on purpose")
    return Seen(seen.n + 1), (seen, city)

def last(cities):
    return cities[0], cities.count(cities[0])

cities = ab.from_iterable([City("Rome"), City("Oslo")] * 5)
sinks = [cities.scan(step, Seen(0)), cities.window(count=7).aggregate(last)]
out = [sink.to_list() for sink in sinks]
if __name__ == "__main__":
    ab.run(*out, checkpoint="kept", epoch_items=3)
    scanned, windows = out[0].items, out[1].items
    rome, oslo = City("Rome"), City("Oslo")
    assert [(Seen(9), oslo)] == scanned[-1:], scanned
    assert [(rome, 4), (oslo, 2)] == windows, windows
    print("went on")
"""


@pytest.mark.long
@pytest.mark.spark
def test_a_state_of_an_earlier_run_is_of_the_classes_of_this_run(tmp_path):
    (tmp_path / "cities.py").write_text(RESUMED)

    failed = run_script(tmp_path, "cities.py", "fails")
    done = run_script(tmp_path, "cities.py")

    assert "on purpose" in failed.stderr
    assert "went on\n" == done.stdout, done.stderr
