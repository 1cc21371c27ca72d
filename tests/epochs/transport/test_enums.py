"""An enum of a script is in workers what it is here: every name and every attribute."""

import enum
from dataclasses import dataclass

import pytest

from tests.epochs.transport.test_pickle import send_by_value


class Planet(enum.Enum):
    EARTH = (5, 2)
    MARS = (3, 4)
    HOME = (5, 2)  # noqa: PIE796 - another name of EARTH

    def __init__(self, mass, radius):
        self.mass = mass
        self.radius = radius

    def weigh(self):
        return self.mass * self.radius


class Right(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE
    NONE = 0


class Level(enum.IntFlag):
    LOW = 1
    HIGH = 2
    ALL = 3


class Axis(bytes, enum.Enum):
    X = (0, "left")
    Y = (1, "up")

    def __new__(cls, value, side):
        made = bytes.__new__(cls, [value])
        made._value_ = value
        made.side = side
        return made


@dataclass(frozen=True)
class Size:
    width: int
    unit: str = "cm"


class Paper(Size, enum.Enum):
    SMALL = (10,)
    LARGE = (20, "mm")


class Named(enum.Enum):
    def __init__(self, code, *_):
        self.code = code


class City(Named):
    ROME = ("r", 1)
    OSLO = ("o", 2)


class Pair(tuple, enum.Enum):  # noqa: SLOT001 - enums have none
    ONE = (1, 2)


class Colour(enum.StrEnum):
    RED = enum.auto()
    BLUE = "b"


for place, colour in enumerate(Colour):
    colour.place = place


@pytest.mark.parametrize(
    ("sent", "expression", "expected"),
    [
        (Planet, "one.HOME is one.EARTH, one.MARS.weigh(), len(one)", "True 12 2"),
        (Planet.MARS, "one.radius, one.name, type(one)((5, 2)).mass", "4 MARS 5"),
        (
            Right,
            "[m.name for m in one], (one.READ | one.WRITE) is one.BOTH",
            "['READ', 'WRITE'] True",
        ),
        (Right, "(~one.READ).name, one(3).name, one.NONE.value", "WRITE BOTH 0"),
        (
            Level,
            "one(3).name, one.ALL + 1, (one.LOW | one.HIGH) is one.ALL",
            "ALL 4 True",
        ),
        (Axis, "one.Y.side, bytes(one.Y), one(0).name", "up b'\\x01' X"),
        (Paper, "one.LARGE.unit, one.SMALL.unit, one.LARGE.width", "mm cm 20"),
        (City, "one.OSLO.code, one(('r', 1)).name", "o ROME"),
        (Pair, "one.ONE[1], one.ONE.value", "2 (1, 2)"),
        (Colour, "one.BLUE.place, one.RED.upper(), one('b').name", "1 RED BLUE"),
    ],
)
def test_an_enum_that_goes_by_value_has_all_its_names(sent, expression, expected):
    assert expected == send_by_value(sent, expression, __name__)
