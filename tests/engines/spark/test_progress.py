"""How far an epoch is can be seen while it runs."""

import time

import pytest

import anabranch as ab

ITEMS = 60


def slow(number: int) -> int:
    time.sleep(0.03)
    return number


@pytest.mark.spark
def test_the_items_done_of_an_epoch_are_told_before_it_ends():
    sink = ab.from_iterable(range(ITEMS), int).map(slow, name="slow").to_list()

    job = ab.start(sink, degree=1, epoch_items=ITEMS)
    seen = []
    while job.status == "running":
        metrics = job.metrics()
        if metrics.epoch_done:
            seen.append(
                (metrics.epochs, metrics.epoch_rows, metrics.epoch_done["slow"])
            )
        time.sleep(0.05)
    job.wait()

    assert list(range(ITEMS)) == sink.items
    assert seen == sorted(seen)
    assert any(0 < done < ITEMS for _, _, done in seen)
    assert {(0, ITEMS)} == {one[:2] for one in seen}
    assert {} == job.metrics().epoch_done
