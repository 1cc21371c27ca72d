"""NEXMark: nine queries about the persons, auctions and bids of an auction house.

`program` runs all nine; `nexmark.py:q5` and the like run one of them. What each answers
stands beside it. A window of time closes with the first event behind it, and an auction
with the first event after its end, so the answers depend on the events alone.

Events must come in the order of `ts`; equal times are fine. q4 and q6 need this of all
events and q8 of those of one seller: they stop with an error at the first event that is
late. q5 and q7 stop at a bid for a window that has been given. q0 to q3 do not look at
the time.

It reads 100,000 events of the benchmark's generator from the folder `nexmark` of the
real data, and events of a generator of our own where there is none.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from samples import real_file
from samples.nexmark import sample_file

ALL = 1_000_000_000  # items; more than a window will ever hold
TEN_SECONDS = 10_000
TWO_SECONDS = 2_000
EUROS = 0.908  # for a dollar
LOCAL = ("OR", "ID", "CA")


class Event(NamedTuple):
    """One line; which attributes it has depends on its type."""

    ts: int
    type: str
    id: int | None = None
    name: str | None = None
    city: str | None = None
    state: str | None = None
    seller: int | None = None
    category: int | None = None
    expires: int | None = None
    auction: int | None = None
    bidder: int | None = None
    price: int | None = None


class Person(NamedTuple):
    """A new person, who may become a seller."""

    ts: int
    seller: int
    name: str
    city: str
    state: str


class Auction(NamedTuple):
    """A new auction."""

    ts: int
    auction: int
    seller: int
    category: int
    expires: int


class Bid(NamedTuple):
    """A bid; its price is in dollars until q1 converts it."""

    ts: int
    auction: int
    bidder: int
    price: float


class Choice(NamedTuple):
    """A bid that q2 selects."""

    auction: int
    price: float


class Suggestion(NamedTuple):
    """A local auction."""

    name: str
    city: str
    state: str
    auction: int


class Sold(NamedTuple):
    """An auction that is over and had a bid in its time."""

    closed: int
    auction: int
    seller: int
    category: int
    price: float


class CategoryPrice(NamedTuple):
    """The average price in a category so far."""

    category: int
    price: float


class SellerPrice(NamedTuple):
    """The average price of the last auctions of a seller."""

    seller: int
    price: float


class Counted(NamedTuple):
    """How many bids each auction had in a window, whose bids go from first to last."""

    first: int
    last: int
    bids: dict[int, int]


class Hot(NamedTuple):
    """An auction with the most bids in a window, whose bids go from first to last."""

    first: int
    last: int
    auction: int
    bids: int


class Newcomer(NamedTuple):
    """A person who sold something within the window of their arrival."""

    window: int
    seller: int
    name: str


def person(event: Event) -> Person:
    """Return the person of an event."""
    return Person(event.ts, event.id, event.name, event.city, event.state)


def auction(event: Event) -> Auction:
    """Return the auction of an event."""
    return Auction(event.ts, event.id, event.seller, event.category, event.expires)


def bid(event: Event) -> Bid:
    """Return the bid of an event."""
    return Bid(event.ts, event.auction, event.bidder, event.price)


def check_order(latest: int | None, event: Event | Person | Auction) -> None:
    """Raise if an event is older than one that came before it."""
    if latest is not None and event.ts < latest:
        msg = (
            f"events must be in the order of ts; got {event!r} after an event with "
            f"ts={int(latest)}; sort the file by ts"
        )
        raise ValueError(msg)


class House(NamedTuple):
    """The streams that queries are about; what no query uses is not run."""

    persons: ab.Stream
    auctions: ab.Stream
    bids: ab.Stream
    sold: ab.Stream


def open_house(path: Path | None = None) -> House:
    """Return the streams of a file of events."""
    file = path or real_file("nexmark", "events_100k.jsonl.gz") or sample_file()
    events = ab.read_jsonl(str(file), Event, name="events")
    persons, auctions, bids = (
        events.filter(lambda event, kind=kind: event.type == kind, name=f"is_{kind}")
        for kind in ("person", "auction", "bid")
    )
    clocked = events.event_time("ts", late="error", name="clock")
    about = clocked.filter(lambda event: event.type != "person", name="about")
    return House(
        persons.map(person, name="persons"),
        auctions.map(auction, name="auctions"),
        bids.map(bid, name="bids"),
        about.key_by(auction_of).apply(Closing, type=Sold, name="sold"),
    )


def opened(house: House | None) -> House:
    """Return the house, or that of the file that is at hand."""
    return house or open_house()


def q0(house: House | None = None) -> ab.Result:
    """Pass the bids on."""
    return opened(house).bids.to_list(name="q0")


def q1(house: House | None = None) -> ab.Result:
    """Convert the prices to euros."""
    return (
        opened(house)
        .bids.map(
            lambda bid: bid._replace(price=bid.price * EUROS), type=Bid, name="euros"
        )
        .to_list(name="q1")
    )


def q2(house: House | None = None, step: int = 123) -> ab.Result:
    """Select the bids for every so manieth auction."""
    chosen = opened(house).bids.filter(
        lambda bid: bid.auction % step == 0, name="chosen"
    )
    prices = chosen.map(lambda bid: Choice(bid.auction, bid.price), type=Choice)
    return prices.to_list(name="q2")


def q3(house: House | None = None) -> ab.Result:
    """Suggest auctions of category 10 by sellers of three states."""
    persons, auctions, *_ = opened(house)
    local = persons.filter(lambda person: person.state in LOCAL, name="local")
    tens = auctions.filter(lambda auction: auction.category == 10, name="tens")
    suggestions = local.join(
        tens, on="seller", left_window=ALL, right_window=ALL, into=suggestion
    )
    return suggestions.to_list(name="q3")


def suggestion(person: Person, auction: Auction) -> Suggestion:
    """Return a local auction with its seller."""
    return Suggestion(person.name, person.city, person.state, auction.auction)


def auction_of(event: Event) -> int | None:
    """Return the auction that an event is about; None for a person."""
    return event.id if event.type == "auction" else event.auction


class Closing(ab.Operator):
    """The bids of one auction; gives its best one when it is over.

    An auction that is over is forgotten, so a bid for it is not counted any more.
    """

    def setup(self) -> None:
        """Start without a bid."""
        self.auction: Auction | None = None
        self.bids: list[tuple[int, float]] = []

    def process(self, event: Event) -> Iterator[Sold]:
        """Keep a bid; one of the same moment may come before its auction."""
        if event.type == "auction":
            self.auction = auction(event)
            self.wake_at(event.expires + 1)
        else:
            self.bids.append((event.ts, event.price))
        return iter(())

    def on_time(self, time: int) -> Iterator[Sold]:
        """Yield the auction, if there was a bid in its time."""
        over = self.auction
        prices = [price for ts, price in self.bids if over.ts <= ts < time]
        self.bids.clear()
        if prices:
            yield Sold(time - 1, over.auction, over.seller, over.category, max(prices))


def q4(house: House | None = None) -> ab.Result:
    """Give the average closing price of each category, anew with each auction."""
    sold = opened(house).sold.key_by("category")
    return sold.scan(average_so_far, (0, 0.0), name="average").to_list(name="q4")


def average_so_far(
    state: tuple[int, float], sold: Sold
) -> tuple[tuple[int, float], CategoryPrice]:
    """Return the average of a category with one more auction."""
    count, total = state[0] + 1, state[1] + sold.price
    return (count, total), CategoryPrice(sold.category, total / count)


def q5(house: House | None = None) -> ab.Result:
    """Give the auctions with the most bids of ten seconds, every two seconds."""
    windows = opened(house).bids.window(time=TEN_SECONDS, every=TWO_SECONDS, on="ts")
    counted = windows.aggregate(
        first=ab.min("ts"),
        last=ab.max("ts"),
        bids=ab.counts("auction"),
        into=Counted,
        name="counted",
    )
    return counted.flat_map(most_bids, name="most_bids").to_list(name="q5")


def most_bids(window: Counted) -> Iterator[Hot]:
    """Yield the auctions with the most bids, by number."""
    most = max(window.bids.values())
    for auction in sorted(window.bids):
        if window.bids[auction] == most:
            yield Hot(window.first, window.last, auction, most)


def q6(house: House | None = None) -> ab.Result:
    """Give the average closing price of the last ten auctions of each seller."""
    sold = opened(house).sold.key_by("seller")
    averages = sold.window(count=10, every=1).aggregate(
        seller=ab.any("seller"), price=ab.mean("price"), into=SellerPrice
    )
    return averages.to_list(name="q6")


def q7(house: House | None = None) -> ab.Result:
    """Give the bids with the highest price of every ten seconds."""
    windows = opened(house).bids.window(time=TEN_SECONDS, on="ts")
    highest = windows.aggregate(bids=ab.highest("price"), name="highest")
    return highest.flat_map(lambda row: row.bids, type=Bid).to_list(name="q7")


def q8(house: House | None = None) -> ab.Result:
    """Give the persons who sold something within ten seconds of their arrival."""
    persons, auctions, *_ = opened(house)
    checked = (
        ab.union(persons, auctions).key_by("seller").apply(InOrder, name="in_order")
    )
    persons, auctions = checked.split(is_auction, 2, name="person_or_auction")
    recent = ab.Window(time=TEN_SECONDS, on="ts")
    selling = persons.join(
        auctions,
        on="seller",
        left_window=recent,
        right_window=recent,
        match=lambda p, a: p.ts // TEN_SECONDS == a.ts // TEN_SECONDS,
        into=newcomer,
    )
    once = selling.key_by("seller", "window").apply(Once, name="once")
    return once.to_list(name="q8")


class InOrder(ab.Operator):
    """Passes on what a seller does, as long as it is in the order of its time."""

    def setup(self) -> None:
        """Start without an event."""
        self.latest: int | None = None

    def process(self, event: Person | Auction) -> Iterator[Person | Auction]:
        """Yield the event."""
        check_order(self.latest, event)
        self.latest = event.ts
        yield event


def is_auction(event: Person | Auction) -> int:
    """Send persons to 0 and auctions to 1."""
    return int(isinstance(event, Auction))


def newcomer(person: Person, auction: Auction) -> Newcomer:
    """Return a person with the window of an auction of theirs."""
    return Newcomer(auction.ts // TEN_SECONDS, person.seller, person.name)


class Once(ab.Operator):
    """Gives the first item of each key only."""

    def setup(self) -> None:
        """Start with nothing given."""
        self.given = False

    def process(self, item: Newcomer) -> Iterator[Newcomer]:
        """Yield the item if it is the first."""
        if not self.given:
            self.given = True
            yield item


QUERIES = (q0, q1, q2, q3, q4, q5, q6, q7, q8)


def program(path: Path | None = None) -> list[ab.Result]:
    """Return the answers to all nine."""
    house = open_house(path)
    return [query(house) for query in QUERIES]
