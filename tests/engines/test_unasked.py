"""What runs unasked gives on every engine what one thread gives."""

from dataclasses import dataclass

import pytest

import anabranch as ab

ENGINES = ["sequential", "local", pytest.param("spark", marks=pytest.mark.spark)]
OPTIONS = {"spark": {"epoch_items": 20}, "local": {"degree": 3}}
MADE: list[int] = []


@dataclass(frozen=True)
class Ticket:
    """A row that is numbered by its constructor."""

    number: int

    def __post_init__(self):
        MADE.append(self.number)
        object.__setattr__(self, "number", len(MADE))


def run(sink, on):
    ab.run(sink, on=on, **OPTIONS.get(on, {}))
    return sink.items


@pytest.mark.parametrize("on", ENGINES)
def test_items_that_their_constructor_numbers_are_made_in_order(on, tmp_path):
    path = tmp_path / "tickets.csv"
    path.write_text("number\n" + "0\n" * 60)
    MADE.clear()

    sink = ab.read_csv(path, Ticket).map(lambda ticket: ticket.number).to_list()

    assert list(range(1, 61)) == run(sink, on)
