"""Items as columns come back as they were, or are refused."""

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.files.arrow_items import form_of, to_items, to_table


class Row(NamedTuple):
    n: int
    x: float
    s: str
    maybe: bytes | None
    flag: bool


@dataclass(frozen=True)
class Note:
    text: str


int64 = st.integers(-(2**63), 2**63 - 1)
rows = st.builds(
    Row, int64, st.floats(), st.text(), st.none() | st.binary(), st.booleans()
)


@given(st.lists(rows, max_size=40))
def test_items_come_back_as_they_were(items):
    table = to_table(items, form_of(Row))

    assert table is not None
    assert repr(items) == repr(to_items(table, form_of(Row)))


@given(st.lists(st.builds(Note, st.sampled_from(["a", "b"])), max_size=3000))
def test_repeated_strings_and_dataclasses_come_back(items):
    table = to_table(items, form_of(Note))

    assert table is not None
    assert items == to_items(table, form_of(Note))


MISFITS = {
    "an int where a float was promised": Row(1, 2, "", None, flag=True),
    "a bool where an int was promised": Row(True, 2.0, "", None, flag=True),
    "a number beyond 64 bits": Row(2**63, 2.0, "", None, flag=True),
    "None where nothing says it may be": Row(None, 2.0, "", None, flag=True),
    "an item of another type": (1, 2.0, "", None, True),
    "text that is not Unicode": Row(1, 2.0, "\ud800", None, flag=True),
}


@pytest.mark.parametrize("item", MISFITS.values(), ids=MISFITS)
def test_what_does_not_fit_to_the_letter_is_not_bent(item):
    assert to_table([Row(1, 1.0, "", b"", flag=False), item], form_of(Row)) is None


def test_types_with_other_attributes_travel_pickled():
    class Odd(NamedTuple):
        values: list[int]

    assert form_of(Odd) is None
    assert form_of(dict) is None


@dataclass(frozen=True, kw_only=True)
class Named:
    n: int
    s: str = ""


@dataclass
class Derived:
    n: int
    twice: int = field(init=False)

    def __post_init__(self):
        self.n += 1  # not what it was, if it were done again
        self.twice = 2 * self.n


@dataclass(frozen=True, slots=True)
class Slotted:
    n: int


@pytest.mark.parametrize(
    "items", [[Named(n=1, s="a")], [Derived(1)], [Slotted(3)]], ids=repr
)
def test_dataclasses_come_back_without_their_constructor(items):
    form = form_of(type(items[0]))

    found = to_items(to_table(items, form), form)

    assert repr(items) == repr(found)
    assert [type(item) for item in items] == [type(item) for item in found]


def test_attributes_beside_the_fields_do_not_get_lost():
    item = Derived(1)
    item.remark = "by a map"

    assert to_table([item], form_of(Derived)) is None


def test_a_field_that_was_never_set_does_not_get_lost():
    item = Derived(1)
    del item.twice

    assert to_table([item], form_of(Derived)) is None


def test_attributes_of_a_tuple_beside_its_values_do_not_get_lost():
    class Noted(Row):
        pass

    item, other = (Noted(1, 2.0, "", None, True) for _ in range(2))
    item.remark = "by a map"

    assert to_table([item], form_of(Noted)) is None
    assert [other] == to_items(to_table([other], form_of(Noted)), form_of(Noted))
