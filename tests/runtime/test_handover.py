"""States move from replica to replica, between the items of the old and the new table."""

from __future__ import annotations

from typing import Any

from anabranch.runtime.batch import Batch, mark_at
from anabranch.runtime.handover import Exchange, Handover
from anabranch.runtime.ordering.merge import SingleQueue
from anabranch.runtime.ports import Inlet
from anabranch.runtime.split import (
    BUCKETS,
    KeyRouter,
    NewTable,
    Numbering,
    Slot,
    SplitOutlet,
    bucket_of,
    even_table,
)


def find_bucket(operator: str, key: int) -> int:
    return key


def test_states_go_where_their_buckets_go():
    moved = Exchange.between([0, 0, 1, 1], [0, 1, 1, 2])
    states = [{"sum": {0: "a", 1: "b"}}, {"sum": {2: "c", 3: "d"}}, {"sum": {}}]

    for replica, own in enumerate(states):
        moved.give(replica, own, find_bucket)
    for replica, own in enumerate(states):
        moved.take(replica, own)

    assert [
        {"sum": {0: "a"}},
        {"sum": {2: "c", 1: "b"}},
        {"sum": {3: "d"}},
    ] == states


def make_clocked(**keys: int) -> dict[str, Any]:
    """Return the state of an operator with a clock that holds these keys until a time."""
    queue = [(due, 0, key, key) for key, due in keys.items()]
    held = {"keys": dict.fromkeys(keys, "open"), "due": dict(keys)}
    clock = {"scale": "int", "clocks": [3], "reached": 3, "idle": frozenset()}
    return {**clock, **held, "last": {}, "ends": {}, "queue": sorted(queue)}


def test_keys_with_a_clock_take_their_open_windows_with_them():
    moved = Exchange.between([0, 0, 1], [0, 1, 1])
    buckets = {"a": 0, "b": 1, "c": 2}
    fresh = {**make_clocked(c=5), "scale": None}
    states = [{"window": {(): make_clocked(a=9, b=4)}}, {"window": {(): fresh}}]

    for replica, own in enumerate(states):
        moved.give(replica, own, lambda _, key: buckets[key], {"window"})
    for replica, own in enumerate(states):
        moved.take(replica, own, {"window"})

    assert [make_clocked(a=9), make_clocked(c=5, b=4)] == [
        one["window"][()] for one in states
    ]


def test_an_exchange_is_complete_when_the_last_replica_has_given():
    moved = Exchange.between([0, 1, 2], [2, 2, 2])

    moved.give(0, {}, find_bucket)
    early = moved.is_complete(0)
    moved.give(1, {}, find_bucket)

    assert not early
    assert moved.is_complete(0)


def test_one_more_replica_gets_buckets_and_the_others_exchange_none():
    for replicas in range(1, 20):
        moved = Exchange.between(even_table(replicas), even_table(replicas + 1))

        assert {replicas} == moved.takers
        assert len(moved.bucket_goes_to) == BUCKETS // (replicas + 1)


def make_outlet(replicas: int, table: tuple[int, ...]) -> SplitOutlet:
    inlets = [Inlet(SingleQueue(), threaded=True) for _ in range(replicas)]
    for inlet in inlets:
        inlet.limit = 100
    return SplitOutlet(
        [Slot(inlet, 0) for inlet in inlets],
        KeyRouter(("real",), table, replicas),  # an attribute that every int has
        Numbering(10, replicas, pulses=True),
    )


def take_all(inlet: Inlet) -> list[Batch]:
    found = []
    while (due := inlet.poll()) is not None:
        assert isinstance(due, Batch)
        found.append(due)
    return found


def test_a_handover_is_between_the_items_of_two_tables_and_joined_with_neither():
    outlet = make_outlet(2, even_table(1))
    items = list(range(20))
    outlet.put(Batch(items[:10], [range(10)]))
    outlet.move_to(NewTable(even_table(2), find_bucket))
    outlet.put(Batch(items[10:], [range(10, 20)]))

    first, second = (take_all(slot.inlet) for slot in outlet.slots)

    moved = [n for n in items[10:] if even_table(2)[bucket_of(n)]]
    assert [items[:10], [], [n for n in items[10:] if n not in moved]] == [
        one.items for one in first
    ]
    assert [[], moved] == [one.items for one in second]
    assert first[1].handover is not None
    assert second[0].handover is not None
    assert first[1].handover.exchange is second[0].handover.exchange
    assert not first[1].handover.must_wait
    assert second[0].handover.must_wait


def test_a_handover_tells_how_far_all_replicas_have_come():
    """Else the merge would wait for a replica that waits for another, which is full."""
    outlet = make_outlet(3, even_table(1))
    outlet.put(Batch(list(range(7)), [range(7)]))
    outlet.move_to(NewTable(even_table(2), find_bucket))
    outlet.put(Batch([7], [range(7, 8)]))

    _, second, third = (take_all(slot.inlet) for slot in outlet.slots)

    assert mark_at(6) == second[0].mark
    assert [mark_at(6)] == [one.mark for one in third]


def test_of_several_tables_at_once_only_the_last_counts():
    outlet = make_outlet(3, even_table(1))
    outlet.move_to(NewTable(even_table(3), find_bucket))
    outlet.move_to(NewTable(even_table(2), find_bucket))
    outlet.put(Batch([1], [range(1)]))

    handovers = [take_all(slot.inlet)[0].handover for slot in outlet.slots[:2]]

    assert all(isinstance(one, Handover) for one in handovers)
    assert 2 == outlet.router.active
    assert [] == take_all(outlet.slots[2].inlet)
