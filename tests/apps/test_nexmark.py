"""The nine queries against answers from lists of all events, without any streams."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import Counter
from statistics import fmean

import pytest

import anabranch as ab
from anabranch.errors import OperatorError
from tests.apps.loading import load_app


@pytest.fixture(scope="module")
def nexmark():
    return load_app("nexmark")


@pytest.fixture(scope="module")
def sample(nexmark, tmp_path_factory):
    return nexmark.sample_file(tmp_path_factory.mktemp("sample"))


class Answers:
    """
    Over all events at once. Each gives plain tuples.
    """

    def __init__(self, path):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        self.persons = [e for e in events if e["type"] == "person"]
        self.auctions = [e for e in events if e["type"] == "auction"]
        self.bids = [e for e in events if e["type"] == "bid"]

    def q0(self):
        return [(b["ts"], b["auction"], b["bidder"], b["price"]) for b in self.bids]

    def q1(self):
        return [(*row[:3], row[3] * 0.908) for row in self.q0()]

    def q2(self):
        return [(row[1], row[3]) for row in self.q0() if row[1] in range(0, 10**6, 123)]

    def q3(self):
        """A pair comes with the later of the two."""
        pairs = [
            (max(p["ts"], a["ts"]), p["ts"], a["ts"], p, a)
            for p, a in itertools.product(self.persons, self.auctions)
            if p["id"] == a["seller"] and a["category"] == 10
        ]
        return [
            (p["name"], p["city"], p["state"], a["id"])
            for *_, p, a in sorted(pairs, key=lambda pair: pair[:3])
            if p["state"] not in ("WA", "AZ", "WY")
        ]

    def sold(self):
        """Auctions with their prices, by the time of their end."""
        prices = {a["id"]: [] for a in self.auctions}
        times = {a["id"]: (a["ts"], a["expires"]) for a in self.auctions}
        for b in self.bids:
            first, last = times.get(b["auction"], (1, 0))
            if first <= b["ts"] <= last:
                prices[b["auction"]].append(b["price"])
        ended = sorted(self.auctions, key=lambda a: (a["expires"], a["id"]))
        return [(a, max(prices[a["id"]])) for a in ended if prices[a["id"]]]

    def q4(self):
        return self.averages("category", 10**9)

    def q6(self):
        return self.averages("seller", 10)

    def averages(self, name, last):
        sold = [(a[name], price) for a, price in self.sold()]
        for place, (group, _) in enumerate(sold):
            mine = [price for one, price in sold[: place + 1] if one == group]
            yield group, fmean(mine[-last:])

    def windows(self, length, step):
        first, last = self.bids[0]["ts"], self.bids[-1]["ts"]
        ends = range(first // step * step + step, last + length + 1, step)
        for end in ends:
            inside = [b for b in self.bids if end - length <= b["ts"] < end]
            if inside:
                yield inside

    def q5(self):
        for inside in self.windows(10_000, 2_000):
            counts = Counter(b["auction"] for b in inside).most_common()
            hot = sorted(auction for auction, n in counts if n == counts[0][1])
            span = inside[0]["ts"], inside[-1]["ts"]
            yield from ((*span, auction, counts[0][1]) for auction in hot)

    def q7(self):
        for inside in self.windows(10_000, 10_000):
            top = max(b["price"] for b in inside)
            for b in inside:
                if b["price"] == top:
                    yield b["ts"], b["auction"], b["bidder"], top

    def q8(self):
        found = {}
        for p, a in itertools.product(self.persons, self.auctions):
            window = p["ts"] // 10_000
            if (p["id"], window) == (a["seller"], a["ts"] // 10_000):
                when = max(p["ts"], a["ts"])
                known = found.get((window, p["id"], p["name"]), when)
                found[window, p["id"], p["name"]] = min(known, when)
        return sorted(found, key=found.get)


NAMES = [f"q{number}" for number in range(9)]


def assert_right(sinks, answers, names=NAMES):
    for name, sink in zip(names, sinks, strict=True):
        wanted = list(getattr(answers, name)())
        assert wanted, name
        assert wanted == [pytest.approx(tuple(item)) for item in sink.items], name


def test_answers_for_the_sample_are_those_from_lists(nexmark, sample):
    sinks = nexmark.program(sample)

    ab.run(*sinks, on="sequential")

    assert_right(sinks, Answers(sample))


@pytest.mark.parametrize("app", ["nexmark", "nexmark_clock"])
def test_a_bid_may_come_before_its_auction_at_the_same_time(app, tmp_path):
    auction = {"type": "auction", "id": 7, "seller": 1, "category": 10, "expires": 20}
    bids = [(3, 90), (5, 40), (5, 30)]  # the first is before the auction's time
    events = [
        {"ts": ts, "type": "bid", "auction": 7, "bidder": 2, "price": price}
        for ts, price in bids
    ]
    path = write_events(tmp_path, [*events, {"ts": 5, **auction}])
    made = load_app(app)
    sink = made.q4(made.open_house(path))

    ab.run(sink, on="sequential")

    assert [(10, 40)] == [tuple(row) for row in sink.items]


@pytest.mark.spark
def test_answers_on_spark_are_those_from_lists(nexmark, sample):
    """
    The queries with the most to keep in order; each of the others is a part of these.
    """
    names = ["q3", "q6", "q8"]
    house = nexmark.open_house(sample)
    sinks = [getattr(nexmark, name)(house) for name in names]

    ab.run(*sinks, on="spark")

    assert_right(sinks, Answers(sample), names)


@pytest.mark.parametrize("name", ["q3", "q4", "q6", "q8"])
def test_joins_run_in_parallel(nexmark, sample, name):
    sink = getattr(nexmark, name)(nexmark.open_house(sample))

    made = ab.compile(sink)

    assert [name] == [one.operator for one in made.plan.sequential]
    ab.run(sink, on="local", degree=3)
    assert_right([sink], Answers(sample), [name])


def test_answers_for_the_benchmark_are_those_from_lists(nexmark, data, tmp_path):
    """
    On the first events, since some of the answers from lists take their time.
    """
    with gzip.open(data / "nexmark" / "events_100k.jsonl.gz", "rt") as events:
        head = "".join(itertools.islice(events, 5000))
    (tmp_path / "head.jsonl").write_text(head)
    sinks = nexmark.program(tmp_path / "head.jsonl")

    ab.run(*sinks, on="sequential")

    assert_right(sinks, Answers(tmp_path / "head.jsonl"))


@pytest.mark.parametrize("name", NAMES)
def test_each_query_is_a_program_of_its_own(nexmark, sample, name):
    """
    As `anabranch run nexmark.py:q3` takes it, with only the streams that it needs.
    """
    sink = getattr(nexmark, name)(nexmark.open_house(sample))

    operators = {op.name for op in ab.compile(sink).graph}

    assert {"events", name} <= operators
    assert ("sold" in operators) == (name in ("q4", "q6"))


HOUSE = [
    {"ts": 1_000, "type": "person", "id": 1, "name": "Ada", "city": "A", "state": "OR"},
    {"ts": 1_000, "type": "auction", "id": 7, "seller": 1, "category": 10}
    | {"expires": 5_000},
    {"ts": 2_000, "type": "bid", "auction": 7, "bidder": 2, "price": 100},
    {"ts": 3_000, "type": "bid", "auction": 7, "bidder": 3, "price": 300},
    {"ts": 25_000, "type": "auction", "id": 8, "seller": 1, "category": 10}
    | {"expires": 26_000},
    {"ts": 25_500, "type": "bid", "auction": 8, "bidder": 3, "price": 50},
]


def write_events(folder, events):
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


LATE = {
    "q4": (4, 3, "bid"),
    "q5": (5, 3, "bid"),
    "q6": (4, 3, "bid"),
    "q7": (5, 3, "bid"),
    "q8": (4, 1, "auction"),
}


@pytest.mark.parametrize("engine", ["sequential", "local"])
@pytest.mark.parametrize(("name", "moved"), LATE.items(), ids=LATE)
def test_a_query_that_needs_the_order_names_the_event_that_is_late(
    nexmark, tmp_path, name, moved, engine
):
    """
    The event at the second place comes only after the one at the first.
    """
    after, place, kind = moved
    events = [e for n, e in enumerate(HOUSE) if n != place]
    events.insert(after, HOUSE[place])
    query = getattr(nexmark, name)(nexmark.open_house(write_events(tmp_path, events)))

    with pytest.raises(OperatorError) as error:
        ab.run(query, on=engine)

    assert f"ts={HOUSE[place]['ts']}" in str(error.value)
    assert kind.title() in str(error.value) or f"type={kind!r}" in str(error.value)
    advice = "allow more lateness" if name in ("q4", "q6") else "sort"
    assert advice in str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_equal_times_are_in_order(nexmark, tmp_path, name):
    path = write_events(tmp_path, HOUSE)
    query = getattr(nexmark, name)(nexmark.open_house(path))

    job = ab.run(query, on="sequential")

    assert {"events": len(HOUSE)} == job.metrics().read


def test_q5_gives_the_span_of_bids_that_are_in_no_order_within_a_step(
    nexmark, tmp_path
):
    events = [HOUSE[3], HOUSE[2]]
    query = nexmark.q5(nexmark.open_house(write_events(tmp_path, events)))

    ab.run(query, on="sequential")

    assert (2_000, 3_000, 7, 2) == query.items[0]
