"""Which offsets of a source are taken when: by hand-grown partitions."""

import anabranch as ab
from anabranch.connectors.partitions import OffsetRange, Ranges
from anabranch.graph.graph import Op
from anabranch.operators.sources import ReadSource


class FakeTopic(ab.Source):
    """A topic whose partitions grow by hand."""

    def __init__(self, *ends, start=0, live=True):
        self.ends = list(ends)
        self.start = start
        self.live = live

    def partitions(self):
        return [str(number) for number in range(len(self.ends))]

    def offsets(self, partition):
        end = self.ends[int(partition)]
        return None if end is None else (self.start, end)

    def read(self, partition, position):
        """Nobody reads it here."""


def ranges_of(topic):
    return Ranges(Op("topic", ReadSource(topic)))


def test_every_partition_gets_its_share():
    ranges = ranges_of(FakeTopic(100, 2, 100))

    assert [
        OffsetRange("0", 0, 4),
        OffsetRange("1", 0, 2),
        OffsetRange("2", 0, 4),
    ] == ranges.take(10)
    assert [OffsetRange("0", 4, 9), OffsetRange("2", 4, 9)] == ranges.take(10)


def test_a_partition_that_does_not_answer_is_asked_again():
    topic = FakeTopic(1, None)
    ranges = ranges_of(topic)

    assert [OffsetRange("0", 0, 1)] == ranges.take(10)
    topic.ends[1] = 2
    assert [OffsetRange("1", 0, 2)] == ranges.take(10)


def test_what_is_not_followed_ends_where_it_ended_at_the_start():
    topic = FakeTopic(3, 2, live=False)
    ranges = ranges_of(topic)

    assert [OffsetRange("0", 0, 3), OffsetRange("1", 0, 1)] == ranges.take(4)
    topic.ends[0] = 10
    assert not ranges.ended
    assert [OffsetRange("1", 1, 2)] == ranges.take(4)
    assert ranges.ended


def test_a_reader_of_the_latest_passes_over_what_is_there():
    topic = FakeTopic(3, start=3)
    ranges = ranges_of(topic)

    assert [] == ranges.take(4)
    topic.ends[0] = 5
    assert [OffsetRange("0", 3, 5)] == ranges.take(4)


def test_ranges_go_on_from_where_others_stood():
    ranges = ranges_of(FakeTopic(9, 9))
    ranges.next = {"0": 8, "1": 9}

    assert [OffsetRange("0", 8, 9)] == ranges.take(4)
