"""Epochs take no more items than the driver can take results of."""

import anabranch as ab
from anabranch.engines.spark import engine
from tests.engines.spark.imitation import Cluster, imitated, undisturbed

LIMIT = 64_000


def test_epochs_become_smaller_and_the_history_says_why(monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "find_result_limit", lambda _: LIMIT)
    texts = [f"{n:0200}" for n in range(1_000)]
    sink = ab.from_iterable(texts, str).map(str.strip).to_list()

    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        job = ab.run(sink, on="spark", degree=1)

    assert texts == sink.items
    _, *others = job.metrics().epoch_items
    assert max(others) * 200 < LIMIT / 2
    told = [one for one in job.history if "spark.driver.maxResultSize" in one.why]
    assert 1 == len(told)
    assert told[0].what.startswith("epochs take at most ")
