"""All sides of the hybrid figures give what the sequential engine gives."""

import pytest

import anabranch as ab
from bench.hybrid.schedulers import demand, noop, os_threads
from bench.hybrid.schedulers.stages import row_of
from bench.hybrid.work import run_by_users, run_with_queues


class Runs(ab.Operator):
    """Run lengths of equal items: waits in the middle of a run for the next item."""

    def setup(self):
        self.last, self.count = None, 0

    def process(self, item):
        if item != self.last and self.count:
            yield self.last, self.count
            self.count = 0
        self.last = item
        self.count += 1

    def finish(self):
        return [(self.last, self.count)] if self.count else []


def selective():
    source = ab.from_iterable([n % 17 for n in range(500)])
    kept = source.map(lambda n: n + 1).filter(lambda n: n % 3 == 0)
    return kept.map(lambda n: n * 2).map(lambda n: n - 1).to_list()


def prolific():
    source = ab.from_iterable([n // 5 for n in range(300)])
    runs = source.flat_map(lambda n: [n] * (n % 4)).apply(Runs)
    return runs.map(lambda pair: (*pair, "seen")).to_list()


def expected(make):
    sink = make()
    ab.run(sink, on="sequential")
    return sink.items


@pytest.mark.parametrize("make", [selective, prolific])
def test_one_thread_for_every_operator(make):
    assert expected(make) == os_threads.run(row_of(make()))


@pytest.mark.parametrize("make", [selective, prolific])
@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("threads", [1, 3])
def test_demand(make, batch, threads):
    row = row_of(make())
    for boxes in ([1] * len(row.names), [1, len(row.names) - 1], [len(row.names)]):
        assert expected(make) == demand.run(row, boxes, batch, threads)


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("replicas", [1, 3])
def test_no_op_padding(batch, replicas):
    row = row_of(selective())

    for shared in (1, 3):
        assert expected(selective) == noop.run(row, batch, replicas, shared)


def test_no_op_padding_has_room_for_one_output_only():
    with pytest.raises(ValueError, match="padded to one"):
        noop.run(row_of(prolific()))


@pytest.mark.parametrize("make", [selective, prolific])
@pytest.mark.parametrize("batch", [1, 7, None])
def test_the_engine_with_a_queue_before_each_operator(make, batch):
    row = row_of(make())
    assert expected(make) == run_with_queues(row, row.names, batch=batch)()


@pytest.mark.parametrize("degree", [1, 2])
def test_the_engine_as_users_run_it_twice(degree):
    run = run_by_users(row_of(selective()), degree)
    assert expected(selective) == run() == run()
