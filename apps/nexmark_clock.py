"""NEXMark in event time: eighteen queries that do not mind events out of order.

`nexmark.py` has q0 to q8 for events in the order of their time. Here a clock allows events
to be two seconds late, and what the queries give is the same as if they had not been: q4 to
q11, and q13 to q22. What each answers stands beside it; `nexmark_clock.py:q5` runs one.

q10 writes bids to files by day and minute: a directory for each value of an attribute is
nothing that a sink makes, so here it gives the rows with both. q12 counts bids by the clock
on the wall, which no program here can look at: another run would have another answer.

It reads 100,000 events of the benchmark's generator from the folder `nexmark` of the
real data, and events of a generator of our own where there is none.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from samples import real_file
from samples.nexmark import sample_file

LATENESS = 2_000
SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
TEN_SECONDS = 10 * SECOND
EUROS = 0.908  # for a dollar
CHANNELS = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
SIDE_INPUT = {n: f"value {n}" for n in range(0, 10_000, 3)}
CHANNEL_ID = re.compile(r"[?&]channel_id=([^&]*)")


class Event(NamedTuple):
    """One line; which attributes it has depends on its type."""

    ts: int
    type: str
    id: int | None = None
    name: str | None = None
    seller: int | None = None
    category: int | None = None
    expires: int | None = None
    auction: int | None = None
    bidder: int | None = None
    price: int | None = None
    channel: str | None = None
    url: str | None = None
    extra: str | None = None


class Sold(NamedTuple):
    """An auction that is over, with the bid that has won."""

    ts: int
    auction: int
    seller: int
    category: int
    bidder: int
    price: int


class Average(NamedTuple):
    """An average price: of a category, or of a seller."""

    of: int
    price: float


class Counted(NamedTuple):
    """The bids of an auction in a window that ends at ts: from when to when, how many."""

    ts: int
    first: int
    last: int
    auction: int
    bids: int


class Highest(NamedTuple):
    """The highest bids of a bidder in a window that ends at ts."""

    ts: int
    bids: list[Event]


class Hot(NamedTuple):
    """An auction with the most bids of a window, which go from one time to another."""

    first: int
    last: int
    auction: int
    bids: int


class Ranks(NamedTuple):
    """How many there are: in all, and by price."""

    all: int
    low: int
    middle: int
    high: int


class Statistics(NamedTuple):
    """The bids of a day: in all, of a channel or of an auction."""

    day: int
    of: int | str
    bids: Ranks
    bidders: Ranks
    auctions: Ranks
    prices: tuple[int, int, float, int]


class House(NamedTuple):
    """The streams that queries are about; each has the clock."""

    events: ab.Stream
    bids: ab.Stream
    about: ab.Stream  # auctions and bids, by auction
    won: ab.Stream


def open_house(path: Path | None = None, lateness: int = LATENESS) -> House:
    """Return the streams of a file of events."""
    file = path or real_file("nexmark", "events_100k.jsonl.gz") or sample_file()
    read = ab.read_jsonl(str(file), Event, name="events")
    events = read.event_time("ts", lateness=lateness, unit="ms", name="clock")
    about = events.filter(lambda e: e.type != "person", name="about")
    by_auction = about.key_by(auction_of, forget_after="1 h")
    return House(
        events,
        events.filter(lambda e: e.type == "bid", name="bids"),
        by_auction,
        by_auction.apply(Winning, type=Sold, name="won"),
    )


def opened(house: House | None) -> House:
    """Return the house, or that of the file that is at hand."""
    return house or open_house()


def auction_of(event: Event) -> int | None:
    """Return the auction that an event is about; None for a person."""
    return event.id if event.type == "auction" else event.auction


class Winning(ab.Operator):
    """The bids of one auction until it is over; then gives the best one."""

    def setup(self) -> None:
        """Start without a bid."""
        self.auction: Event | None = None
        self.bids: list[Event] = []

    def process(self, event: Event) -> Iterator[Sold]:
        """Keep a bid; a bid may come before its auction."""
        if event.type == "auction":
            self.auction = event
            self.wake_at(event.expires + 1)
        else:
            self.bids.append(event)
        return iter(())

    def on_time(self, time: int) -> Iterator[Sold]:
        """Yield the auction, if there was a bid in its time."""
        over = self.auction
        valid = [bid for bid in self.bids if over.ts <= bid.ts < time]
        if valid:
            best = min(valid, key=lambda bid: (-bid.price, bid.ts))
            yield Sold(
                time - 1, over.id, over.seller, over.category, best.bidder, best.price
            )


def q4(house: House | None = None) -> ab.Result:
    """Give the average closing price of each category, anew with each auction."""
    return (
        opened(house)
        .won.key_by("category")
        .scan(average_so_far, (0, 0), name="average")
        .to_list(name="q4")
    )


def average_so_far(
    state: tuple[int, int], sold: Sold
) -> tuple[tuple[int, int], Average]:
    """Return the average of a category with one more auction."""
    count, total = state[0] + 1, state[1] + sold.price
    return (count, total), Average(sold.category, total / count)


def q5(house: House | None = None) -> ab.Result:
    """Give the auctions with the most bids of ten seconds, every two seconds.

    Counted by auction, then compared by window: both run in parallel.
    """
    windows = opened(house).bids.key_by("auction").window(time="10 s", every="2 s")
    counted = windows.aggregate(
        ts=ab.window_end(),
        first=ab.min("ts"),
        last=ab.max("ts"),
        auction=ab.any("auction"),
        bids=ab.count(),
        into=Counted,
        name="counted",
    )
    of_window = counted.key_by("ts").window(time="2 s")
    hottest = of_window.aggregate(most_bids, name="most_bids")
    return hottest.flat_map(lambda found: found, type=Hot).to_list(name="q5")


def most_bids(counts: list[Counted]) -> list[Hot]:
    """Return the auctions with the most bids of a window, by number."""
    first, last = min(one.first for one in counts), max(one.last for one in counts)
    most = max(one.bids for one in counts)
    hot = sorted(one.auction for one in counts if one.bids == most)
    return [Hot(first, last, auction, most) for auction in hot]


def q6(house: House | None = None) -> ab.Result:
    """Give the average closing price of the last ten auctions of each seller."""
    averages = (
        opened(house)
        .won.key_by("seller")
        .window(count=10, every=1)
        .aggregate(of=ab.any("seller"), price=ab.mean("price"), into=Average)
    )
    return averages.to_list(name="q6")


def q7(house: House | None = None) -> ab.Result:
    """Give the bids with the highest price of every ten seconds, by their time.

    The highest of each bidder, then of all: both run in parallel.
    """
    windows = opened(house).bids.key_by("bidder").window(time="10 s")
    own = windows.aggregate(
        ts=ab.window_end(), bids=ab.highest("price"), into=Highest, name="own"
    )
    of_window = own.key_by("ts").window(time="10 s")
    highest = of_window.aggregate(highest_bids, name="highest")
    return highest.flat_map(lambda found: found, type=Event).to_list(name="q7")


def highest_bids(own: list[Highest]) -> list[Event]:
    """Return the bids with the highest price of a window."""
    bids = [bid for one in own for bid in one.bids]
    price = max(bid.price for bid in bids)
    return sorted(bid for bid in bids if bid.price == price)


def q8(house: House | None = None) -> ab.Result:
    """Give the persons who sold something within ten seconds of their arrival."""
    both = opened(house).events.filter(lambda e: e.type != "bid", name="both")
    windows = both.key_by(person_of).window(time="10 s")
    sellers = windows.aggregate(newcomers, name="newcomers")
    return sellers.flat_map(lambda found: found, type=tuple).to_list(name="q8")


def person_of(event: Event) -> int | None:
    """Return the person that an event is about."""
    return event.id if event.type == "person" else event.seller


def newcomers(events: list[Event]) -> list[tuple[int, int, str]]:
    """Return a person who has come and sold in one window, with the window."""
    persons = [event for event in events if event.type == "person"]
    sells = any(event.type == "auction" for event in events)
    return [(p.ts // TEN_SECONDS, p.id, p.name) for p in persons if sells]


def q9(house: House | None = None) -> ab.Result:
    """Give the winning bid of each auction."""
    return opened(house).won.to_list(name="q9")


def q10(house: House | None = None) -> ab.Result:
    """Give the bids with their day and minute, as they would be laid down by these."""
    return (
        opened(house)
        .bids.map(
            lambda bid: (bid.ts // DAY, bid.ts % DAY // MINUTE, bid), name="by_minute"
        )
        .to_list(name="q10")
    )


def q11(house: House | None = None) -> ab.Result:
    """Count the bids of each visit: ten seconds without a bid end it."""
    visits = opened(house).bids.key_by("bidder").window(gap="10 s")
    counts = visits.aggregate(
        bidder=ab.any("bidder"),
        bids=ab.count(),
        start=ab.window_start(),
        end=ab.window_end(),
    )
    return counts.to_list(name="q11")


def q13(house: House | None = None) -> ab.Result:
    """Enrich the bids from a table."""
    numbered = opened(house).bids.map(
        lambda bid: bid._replace(id=bid.auction % 10_000), type=Event, name="numbered"
    )
    found = numbered.lookup(
        SIDE_INPUT,
        on="id",
        into=lambda bid, value: (bid.auction, bid.bidder, bid.price, bid.ts, value),
    )
    return found.to_list(name="q13")


def q14(house: House | None = None) -> ab.Result:
    """Convert, select and classify the bids, and count a letter."""
    chosen = opened(house).bids.filter(
        lambda bid: 1_000_000 < bid.price * EUROS < 50_000_000, name="chosen"
    )
    return chosen.map(classified, name="classified").to_list(name="q14")


def classified(bid: Event) -> tuple[int, int, float, str, int]:
    """Return a bid in euros, with the part of the day and the number of its c."""
    hour = bid.ts % DAY // HOUR
    part = "other"
    if 8 <= hour <= 18:
        part = "day"
    elif hour <= 6 or hour >= 20:
        part = "night"
    return (
        bid.auction,
        bid.bidder,
        bid.price * EUROS,
        part,
        (bid.extra or "").count("c"),
    )


def statistics(bids: list[Event], of: int | str) -> Statistics:
    """Return what a day of bids comes to."""
    prices = [bid.price for bid in bids]
    spread = min(prices), max(prices), sum(prices) / len(prices), sum(prices)
    return Statistics(
        bids[0].ts // DAY,
        of,
        Ranks(*(len(group) for group in by_rank(bids))),
        Ranks(*(len({bid.bidder for bid in group}) for group in by_rank(bids))),
        Ranks(*(len({bid.auction for bid in group}) for group in by_rank(bids))),
        spread,
    )


def by_rank(bids: list[Event]) -> list[list[Event]]:
    """Return all bids, and those of low, middle and high prices."""
    low = [bid for bid in bids if bid.price < 10_000]
    middle = [bid for bid in bids if 10_000 <= bid.price < 1_000_000]
    high = [bid for bid in bids if bid.price >= 1_000_000]
    return [bids, low, middle, high]


def q15(house: House | None = None) -> ab.Result:
    """Count bids, bidders and auctions of each day, by price."""
    days = opened(house).bids.window(time="1 d")
    return days.aggregate(lambda bids: statistics(bids, "all")).to_list(name="q15")


def q16(house: House | None = None) -> ab.Result:
    """Count bids, bidders and auctions of each channel and day, by price."""
    days = opened(house).bids.key_by("channel").window(time="1 d")
    counted = days.aggregate(lambda bids: statistics(bids, bids[0].channel))
    return counted.to_list(name="q16")


def q17(house: House | None = None) -> ab.Result:
    """Count bids and prices of each auction and day."""
    days = opened(house).bids.key_by("auction").window(time="1 d")
    counted = days.aggregate(lambda bids: statistics(bids, bids[0].auction))
    return counted.to_list(name="q17")


def q18(house: House | None = None) -> ab.Result:
    """Give the last bid of each bidder for each auction, of every day."""
    days = opened(house).bids.key_by("bidder", "auction").window(time="1 d")
    latest = days.aggregate(lambda bids: max(bids, key=by_time), name="latest")
    return latest.to_list(name="q18")


def by_time(bid: Event) -> tuple[int, int]:
    """Return by what bids are in order: their time, then their price."""
    return bid.ts, bid.price


def q19(house: House | None = None) -> ab.Result:
    """Give the ten highest bids for each auction, of every day."""
    days = opened(house).bids.key_by("auction").window(time="1 d")
    top = days.aggregate(highest_ten, name="highest_ten")
    return top.flat_map(lambda found: found).to_list(name="q19")


def highest_ten(bids: list[Event]) -> list[tuple[int, int, int]]:
    """Return the ten highest bids of an auction, with their ranks."""
    best = sorted(bids, key=lambda bid: (-bid.price, bid.ts, bid.bidder))[:10]
    return [(bid.auction, rank, bid.price) for rank, bid in enumerate(best, 1)]


class Expanded(ab.Operator):
    """An auction of category 10 and its bids, whichever comes first."""

    def setup(self) -> None:
        """Start without an auction."""
        self.auction: Event | None = None
        self.bids: list[Event] = []

    def process(self, event: Event) -> Iterator[tuple[int, int, int, int]]:
        """Yield the bids that have found their auction."""
        if event.type == "auction":
            self.auction = event
        else:
            self.bids.append(event)
        if self.auction is not None:
            found, self.bids = self.bids, []
            if self.auction.category == 10:
                for bid in found:
                    yield bid.auction, bid.bidder, bid.price, self.auction.seller


def q20(house: House | None = None) -> ab.Result:
    """Give the bids for auctions of category 10, with their auctions."""
    found = opened(house).about.apply(Expanded)
    return found.to_list(name="q20")


def q21(house: House | None = None) -> ab.Result:
    """Give the bids with the number of their channel, if it has one."""
    found = opened(house).bids.flat_map(with_channel, name="with_channel")
    return found.to_list(name="q21")


def with_channel(bid: Event) -> list[tuple[int, int, int, str]]:
    """Return a bid with its channel: one of four that are known, or that of its URL."""
    known = CHANNELS.get((bid.channel or "").lower())
    if known is None:
        named = CHANNEL_ID.search(bid.url or "")
        known = None if named is None else named[1]
    return [] if known is None else [(bid.auction, bid.bidder, bid.price, known)]


def q22(house: House | None = None) -> ab.Result:
    """Give the bids with the first three directories of their URL."""
    return (
        opened(house)
        .bids.map(
            lambda bid: (bid.auction, bid.bidder, *directories(bid.url or "")),
            name="split_url",
        )
        .to_list(name="q22")
    )


def directories(url: str) -> list[str | None]:
    """Return the three parts of a URL behind its host; None where there is none."""
    parts: list[str | None] = [*url.split("/")[3:6]]
    return parts + [None] * (3 - len(parts))


QUERIES = (
    *(q4, q5, q6, q7, q8, q9, q10, q11, q13),
    *(q14, q15, q16, q17, q18, q19, q20, q21, q22),
)


def program(path: Path | None = None, lateness: int = LATENESS) -> list[ab.Result]:
    """Return the answers to all of them."""
    house = open_house(path, lateness)
    return [query(house) for query in QUERIES]
