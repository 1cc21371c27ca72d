"""Which messages of a topic are taken when: by hand-grown partitions."""

from anabranch.connectors.kafka import Range, Ranges
from anabranch.operators.sources import Kafka


class FakeTopic:
    """A topic whose partitions grow by hand."""

    def __init__(self, *ends):
        self.ends = list(ends)

    def partitions(self):
        return list(range(len(self.ends)))

    def bounds(self, partition):
        end = self.ends[partition]
        return None if end is None else (0, end)


def ranges_of(topic, **options):
    kind = Kafka("", "t", int, "jsonl", **options)
    return Ranges(kind, topic)


def test_every_partition_gets_its_share():
    ranges = ranges_of(FakeTopic(100, 2, 100))

    assert [Range(0, 0, 4), Range(1, 0, 2), Range(2, 0, 4)] == ranges.take(10)
    assert [Range(0, 4, 9), Range(2, 4, 9)] == ranges.take(10)


def test_a_partition_that_does_not_answer_is_asked_again():
    topic = FakeTopic(1, None)
    ranges = ranges_of(topic)

    assert [Range(0, 0, 1)] == ranges.take(10)
    topic.ends[1] = 2
    assert [Range(1, 0, 2)] == ranges.take(10)


def test_what_is_not_followed_ends_where_it_ended_at_the_start():
    topic = FakeTopic(3, 2)
    ranges = ranges_of(topic, follow=False)

    assert [Range(0, 0, 3), Range(1, 0, 1)] == ranges.take(4)
    topic.ends[0] = 10
    assert not ranges.ended
    assert [Range(1, 1, 2)] == ranges.take(4)
    assert ranges.ended


def test_a_reader_of_the_latest_passes_over_what_is_there():
    topic = FakeTopic(3)
    ranges = ranges_of(topic, start="latest")

    assert [] == ranges.take(4)
    topic.ends[0] = 5
    assert [Range(0, 3, 5)] == ranges.take(4)


def test_ranges_go_on_from_where_others_stood():
    ranges = ranges_of(FakeTopic(9, 9))
    ranges.go_to({0: 8, 1: 9})

    assert [Range(0, 8, 9)] == ranges.take(4)
