"""The queries in event time against answers from lists, in order and out of order."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections import Counter, defaultdict

import pytest

import anabranch as ab
from tests.apps.loading import load_app

DAY = 86_400_000
NAMES = [f"q{number}" for number in (*range(4, 12), *range(13, 23))]


@pytest.fixture(scope="module")
def nexmark():
    return load_app("nexmark_clock")


@pytest.fixture(scope="module")
def events(nexmark, tmp_path_factory):
    path = nexmark.sample_file(tmp_path_factory.mktemp("sample"))
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(folder, events):
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def shuffle(events, by=1900):
    """Put events out of order by less than the clock allows."""
    chance = random.Random(5)
    return sorted(events, key=lambda event: event["ts"] + chance.randrange(by))


class Answers:
    """Over all events at once, in the order of their time."""

    def __init__(self, events):
        self.persons = [e for e in events if e["type"] == "person"]
        self.auctions = [e for e in events if e["type"] == "auction"]
        self.bids = [e for e in events if e["type"] == "bid"]

    def q9(self):
        by_auction = defaultdict(list)
        for b in self.bids:
            by_auction[b["auction"]].append(b)
        for a in sorted(self.auctions, key=lambda a: (a["expires"], a["id"])):
            mine = by_auction[a["id"]]
            valid = [b for b in mine if a["ts"] <= b["ts"] <= a["expires"]]
            if valid:
                best = min(valid, key=lambda b: (-b["price"], b["ts"]))
                yield (
                    *(a["expires"], a["id"], a["seller"], a["category"]),
                    *(best["bidder"], best["price"]),
                )

    def averages(self, place, last):
        seen = defaultdict(list)
        for row in self.q9():
            seen[row[place]].append(row[5])
            mine = seen[row[place]][-last:]
            yield row[place], sum(mine) / len(mine)

    def q4(self):
        return self.averages(3, 10**9)

    def q6(self):
        return self.averages(2, 10)

    def windows(self, length, step):
        times = [b["ts"] for b in self.bids]
        first, last = min(times), max(times)
        for end in range(first // step * step + step, last + length + 1, step):
            inside = [b for b in self.bids if end - length <= b["ts"] < end]
            if inside:
                yield inside

    def q5(self):
        for inside in self.windows(10_000, 2_000):
            counts = Counter(b["auction"] for b in inside).most_common()
            hot = sorted(auction for auction, n in counts if n == counts[0][1])
            for auction in hot:
                yield inside[0]["ts"], inside[-1]["ts"], auction, counts[0][1]

    def q7(self):
        for inside in self.windows(10_000, 10_000):
            top = max(b["price"] for b in inside)
            yield from (b["ts"] for b in inside if b["price"] == top)

    def q8(self):
        found = set()
        for p, a in itertools.product(self.persons, self.auctions):
            window = p["ts"] // 10_000
            if (p["id"], window) == (a["seller"], a["ts"] // 10_000):
                found.add((window, p["id"], p["name"]))
        return sorted(found)

    def q10(self):
        return [(b["ts"] // DAY, b["ts"] % DAY // 60_000, b["ts"]) for b in self.bids]

    def q11(self):
        visits = []
        for bidder in {b["bidder"] for b in self.bids}:
            times = sorted(b["ts"] for b in self.bids if b["bidder"] == bidder)
            cuts = [
                i for i in range(1, len(times)) if times[i] - times[i - 1] >= 10_000
            ]
            for start, stop in itertools.pairwise([0, *cuts, len(times)]):
                mine = times[start:stop]
                visits.append((bidder, len(mine), mine[0], mine[-1] + 10_000))
        return sorted(visits, key=lambda visit: (visit[3], visit[0]))

    def q13(self):
        for b in self.bids:
            number = b["auction"] % 10_000
            if number % 3 == 0:
                yield (
                    *(b["auction"], b["bidder"], b["price"], b["ts"]),
                    f"value {number}",
                )

    def q14(self):
        for b in self.bids:
            euros, hour = b["price"] * 0.908, b["ts"] // 3_600_000 % 24
            if 1_000_000 < euros < 50_000_000:
                part = "night" if hour in (*range(7), *range(20, 24)) else "other"
                part = "day" if hour in range(8, 19) else part
                yield b["auction"], b["bidder"], euros, part, b["extra"].count("c")

    def statistics(self, name):
        groups = defaultdict(list)
        for b in self.bids:
            groups[b["ts"] // DAY, b[name] if name else "all"].append(b)
        for (day, of), bids in sorted(groups.items()):
            ranked = [
                bids,
                *(
                    [b for b in bids if low <= b["price"] < high]
                    for low, high in ((0, 10**4), (10**4, 10**6), (10**6, 10**12))
                ),
            ]
            prices = [b["price"] for b in bids]
            yield (
                *(day, of, tuple(map(len, ranked))),
                tuple(len({b["bidder"] for b in group}) for group in ranked),
                tuple(len({b["auction"] for b in group}) for group in ranked),
                (min(prices), max(prices), sum(prices) / len(prices), sum(prices)),
            )

    def q15(self):
        return self.statistics(None)

    def q16(self):
        return self.statistics("channel")

    def q17(self):
        return self.statistics("auction")

    def q18(self):
        last = {}
        for b in sorted(self.bids, key=lambda b: (b["ts"], b["price"])):
            last[b["ts"] // DAY, b["bidder"], b["auction"]] = b["ts"], b["price"]
        return [(*key[1:], *last[key]) for key in sorted(last)]

    def q19(self):
        groups = defaultdict(list)
        for b in self.bids:
            groups[b["ts"] // DAY, b["auction"]].append(b["price"])
        for (_, auction), prices in sorted(groups.items()):
            best = sorted(prices, reverse=True)[:10]
            yield from ((auction, rank + 1, p) for rank, p in enumerate(best))

    def q20(self):
        tens = {a["id"]: a["seller"] for a in self.auctions if a["category"] == 10}
        for b in self.bids:
            if b["auction"] in tens:
                yield b["auction"], b["bidder"], b["price"], tens[b["auction"]]

    def q21(self):
        known = ["apple", "google", "facebook", "baidu"]
        for b in self.bids:
            channel = b["channel"].lower()
            row = b["auction"], b["bidder"], b["price"]
            if channel in known:
                yield *row, str(known.index(channel))
            elif "channel_id=" in b["url"]:
                yield *row, b["url"].partition("channel_id=")[2].partition("&")[0]

    def q22(self):
        for b in self.bids:
            yield b["auction"], b["bidder"], *b["url"].split("/")[3:6]


def plain(name, item):
    """Return what is compared of an item."""
    match name:
        case "q7":
            return item.ts
        case "q10":
            return (*item[:2], item[2].ts)
        case "q18":
            return item.bidder, item.auction, item.ts, item.price
    return tuple(item)


# What has no place in time comes as the events do, so out of order its order is another.
UNTIMED = {"q10", "q13", "q14", "q20", "q21", "q22"}


def assert_right(sinks, answers, names, *, in_order):
    for name, sink in zip(names, sinks, strict=True):
        wanted = list(getattr(answers, name)())
        found = [plain(name, item) for item in sink.items]
        assert wanted, name
        if name in UNTIMED and not (in_order and name != "q20"):
            wanted, found = sorted(wanted), sorted(found)
        if name in ("q4", "q6"):
            assert found == [pytest.approx(row) for row in wanted], name
        elif name == "q5" and not in_order:
            assert [row[2:] for row in found] == [row[2:] for row in wanted], name
        else:
            assert found == wanted, name


@pytest.mark.parametrize("engine", ["sequential", "local"])
@pytest.mark.parametrize("order", ["in order", "out of order"])
def test_answers_are_those_from_lists(nexmark, events, tmp_path, engine, order):
    given = events if order == "in order" else shuffle(events)
    sinks = nexmark.program(write(tmp_path, given))

    ab.run(*sinks, on=engine)

    assert_right(sinks, Answers(events), NAMES, in_order=order == "in order")


@pytest.mark.parametrize("name", ["q4", "q5", "q6", "q7", "q8", "q9"])
def test_joins_run_in_parallel(nexmark, events, tmp_path, name):
    house = nexmark.open_house(write(tmp_path, shuffle(events)))
    sink = getattr(nexmark, name)(house)

    made = ab.compile(sink)

    assert [name] == [one.operator for one in made.plan.sequential]
    ab.run(sink, on="local", degree=3)
    assert_right([sink], Answers(events), [name], in_order=False)


@pytest.mark.spark
def test_answers_on_spark_are_those_from_lists(nexmark, events, tmp_path):
    names = ["q4", "q5", "q7", "q8", "q11", "q13"]
    house = nexmark.open_house(write(tmp_path, shuffle(events)))
    sinks = [getattr(nexmark, name)(house) for name in names]

    ab.run(*sinks, on="spark", epoch_items=400)

    assert_right(sinks, Answers(events), names, in_order=False)


def test_answers_for_the_benchmark_are_those_from_lists(nexmark, data, tmp_path):
    with gzip.open(data / "nexmark" / "events_100k.jsonl.gz", "rt") as lines:
        events = [json.loads(line) for line in itertools.islice(lines, 4000)]
    sinks = nexmark.program(write(tmp_path, shuffle(events)))

    ab.run(*sinks, on="local")

    assert_right(sinks, Answers(events), NAMES, in_order=False)
