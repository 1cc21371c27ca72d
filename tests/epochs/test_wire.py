"""Batches become blobs and come back; many batches become one stream in order."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.files.arrow_items import form_of
from anabranch.epochs.transport.pickle import Pickler
from anabranch.epochs.wire import (
    WireBatch,
    blob_of,
    column_of,
    decode,
    encode,
    end_to_end,
    in_order,
    interleave,
    merge_in_order,
    pack,
)
from anabranch.language.drafts import build_graph
from anabranch.language.sources import from_iterable
from anabranch.operators.stateless import WINDOW
from tests.engines.spark.items import Note, Trade, trades

GRAPH = build_graph([from_iterable([], Note).map(str, type=Trade).to_list()])
PICKLER = Pickler(GRAPH)


def batch(items, positions, kind=Trade):
    columns = [np.array(c, np.int64) for c in zip(*positions, strict=True)]
    return WireBatch(columns, form_of(kind), None, list(items))


def back(made):
    return decode(pa.py_buffer(encode(made, PICKLER)), made.form, PICKLER)


CASES = {
    "typed items": trades(5),
    "items beside their type": [*trades(3), (1, 2)],
    "marks": [*trades(2), WINDOW],
    "dataclasses": [Note("a", None), Note("b", "x")],
}


@pytest.mark.parametrize("items", CASES.values(), ids=CASES)
def test_a_blob_gives_the_batch_back(items):
    positions = [(n, n % 2) for n in range(len(items))]

    found = back(batch(items, positions))

    assert items == found.items
    assert positions == list(zip(*(c.tolist() for c in found.positions), strict=True))


@pytest.mark.parametrize("items", CASES.values(), ids=CASES)
def test_what_stays_in_a_process_is_what_would_have_left_it(items):
    made = batch(items, [(n, n % 2) for n in range(len(items))])
    payload = pack(made, PICKLER)

    stayed = decode(payload, made.form, PICKLER)
    left = decode(pa.py_buffer(blob_of(payload)), made.form, PICKLER)

    assert items == stayed.items == left.items
    for one, two in zip(stayed.positions, left.positions, strict=True):
        assert one.tolist() == two.tolist()
    assert not set(map(id, items)) & set(map(id, stayed.items)) - {id(WINDOW)}


TURNS = [(1, 0, b"", 0), (1, 1, b"\x01a", 1), (1, 1, b"\x02", 0), (1, 2, b"", 0)]


def with_turns(items, positions):
    columns = [
        column_of(column, turns=place == 2)
        for place, column in enumerate(zip(*positions, strict=True))
    ]
    return WireBatch(columns, form_of(Trade), None, list(items))


def test_a_blob_gives_turns_back():
    found = back(with_turns(trades(4), TURNS))

    assert TURNS == list(zip(*(c.tolist() for c in found.positions), strict=True))


def test_what_replicas_give_in_turns_comes_out_in_the_order_of_turns():
    items = trades(4)
    one = with_turns([items[1], items[3]], [TURNS[1], TURNS[3]])
    two = with_turns([items[0], items[2]], [TURNS[0], TURNS[2]])

    assert items == in_order([back(one), back(two)]).items
    assert items == interleave([one, two], 4, {2})[0]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), unique=True), st.randoms()
)
def test_batches_of_any_channels_come_in_the_order_of_positions(positions, rng):
    channels = [[], [], []]
    for position in sorted(positions):
        rng.choice(channels).append(position)
    batches = [
        batch([Trade(*p, 0.0, 0) for p in channel], channel)
        for channel in channels
        if channel
    ]
    rng.shuffle(batches)

    assert sorted(positions) == [item[:2] for item in in_order(batches).items]


def test_copies_of_a_mark_from_several_channels_become_one():
    one = batch([Trade(1, "a", 0.0, 0), WINDOW], [(1, 0), (2, 0)])
    two = batch([WINDOW, Trade(3, "b", 0.0, 0)], [(2, 0), (3, 0)])

    assert [1, WINDOW, 3] == [
        x if x is WINDOW else x.ts for x in in_order([two, one]).items
    ]


def marked(places, count):
    """Return trades with marks at some places, which are 0, 1, ..."""
    own = iter(trades(count))
    items = [WINDOW if n in places else next(own) for n in range(count)]
    return items, batch(items, [(n, 0) for n in range(count)]).compact()


def test_items_become_columns_with_their_marks_apart():
    items, made = marked({2, 3, 9}, 12)

    assert made.marked is not None
    assert made.marked.table.num_rows == 9
    assert items == made.items
    assert items == back(made).items
    assert [list(range(12)), [0] * 12] == [c.tolist() for c in back(made).positions]
    assert [x for x in items if x is not WINDOW] == made.drop_signs().items


@given(st.sets(st.integers(0, 11), min_size=1, max_size=11), st.randoms())
def test_columns_with_marks_are_cut_and_chosen_from_as_lists_are(places, rng):
    items, made = marked(places, 12)
    start, end = sorted([rng.randint(0, 12), rng.randint(0, 12)])
    order = rng.sample(range(12), rng.randint(0, 12))

    assert items[start:end] == made.slice(start, end).items
    assert [items[n] for n in order] == made.take(np.array(order, np.int64)).items
    both = end_to_end([made, made.drop_signs(), made])
    assert [*items, *made.drop_signs().items, *items] == both.items


def test_copies_of_a_mark_among_columns_become_one():
    items, made = marked({2, 9}, 12)
    halves = [
        made.take(np.array([n for n in range(12) if n in {2, 9} or n % 2 == half]))
        for half in (0, 1)
    ]

    assert items == in_order([back(half) for half in halves]).items


def test_items_are_not_asked_whether_they_are_marks():
    one = batch([np.arange(3), np.arange(2)], [(1,), (3,)], object)
    two = batch([np.arange(1)], [(2,)], object)

    assert [3, 1, 2] == [len(item) for item in in_order([one, two]).items]


def test_streams_are_interleaved_by_position_and_told_apart():
    one = batch("ac", [(1,), (3,)], str)
    two = batch("bd", [(2, 5), (3, 1)], str)

    items, columns, streams = interleave([one, two], 2)

    assert ["a", "b", "c", "d"] == items
    assert [0, 1, 0, 1] == streams
    assert [[1, 2, 3, 3], [0, 5, 0, 1]] == [c.tolist() for c in columns]


def test_chunks_put_end_to_end_are_the_batch():
    items = trades(40_000)
    whole = batch(items, [(n,) for n in range(len(items))]).compact()

    chunks = [chunk.compact() for chunk in whole.chunks()]

    assert len(chunks) > 1
    assert items == end_to_end(chunks).items


def test_taking_some_keeps_items_with_their_positions():
    order = np.array(random.Random(1).sample(range(50), 20))
    for made in (
        batch(trades(50), [(n,) for n in range(50)]),
        batch(["x"] * 50, [(n,) for n in range(50)], dict),
    ):
        taken = made.take(order)

        assert order.tolist() == taken.positions[0].tolist()
        assert [made.items[i] for i in order] == taken.items


def coded(made):
    """Return a batch whose strings are codes."""
    made = made.compact()
    place = made.table.column_names.index("symbol")
    field = made.table.schema.field(place)
    column = made.table.column(place).dictionary_encode()
    table = made.table.set_column(place, field.with_type(column.type), column)
    return WireBatch(made.positions, made.form, table)


def test_codes_of_strings_travel_and_meet_strings_as_they_are():
    items = trades(400)
    one = coded(batch(items[:200], [(n,) for n in range(200)]))
    two = batch(items[200:], [(n,) for n in range(200, 400)]).compact()

    assert pa.types.is_dictionary(back(one).table.schema.field("symbol").type)
    assert items == in_order([back(two), back(one)]).items


def test_a_dictionary_larger_than_its_rows_stays_behind():
    made = coded(batch(trades(40), [(n,) for n in range(40)])).slice(7, 9)

    assert trades(40)[7:9] == back(made).items
    assert "string" == str(back(made).table.schema.field("symbol").type)


@given(st.lists(st.integers(0, 2), max_size=60), st.integers(1, 9), st.booleans())
def test_runs_that_overlap_are_merged_part_by_part(owners, size, sparse):
    step = 50 if sparse else 1
    items = trades(len(owners))
    batches = []
    for owner in range(3):
        own = [n for n, who in enumerate(owners) if who == owner]
        for start in range(0, len(own), size):
            some = own[start : start + size]
            made = batch([items[n] for n in some], [(n * step,) for n in some])
            batches.append(coded(made))

    merged = list(merge_in_order(batches))

    assert items == [item for made in merged for item in made.items]
    numbers = [n for made in merged for n in made.positions[0].tolist()]
    assert [n * step for n in range(len(items))] == numbers
