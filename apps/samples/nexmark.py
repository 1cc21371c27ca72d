"""Events of an auction house, in the proportions of the NEXMark generator.

Of every 50 events one is a new person, three are new auctions and the rest are bids,
most of them for recent auctions. Some bids name an auction that is not there yet.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from samples import SAMPLES, text_sample

Event = dict[str, Any]

STATES = ("OR", "ID", "CA", "WA", "AZ", "WY")
FIRST = 1050
CHANNELS = ("Apple", "Google", "Facebook", "Baidu", "channel-7", "channel-9", "none")


def sample_file(folder: Path = SAMPLES, number: int = 1500, seed: int = 37) -> Path:
    """Write a sample of events; the same seed gives the same."""
    lines = (json.dumps(event) for event in events(number, seed))
    return text_sample("nexmark.jsonl", lines, folder)


def events(number: int, seed: int) -> Iterator[Event]:
    """Yield so many events, one every 23 ms."""
    chance = random.Random(seed)
    persons = auctions = FIRST
    for count in range(number):
        ts = 1_436_918_400_000 + 23 * count
        match count % 50:
            case 0:
                yield person(chance, ts, persons)
                persons += 1
            case 1 | 2 | 3:
                seller = chance.randrange(max(FIRST, persons - 8), persons + 1)
                yield auction(chance, ts, auctions, seller)
                auctions += 1
            case _:
                wanted = chance.randrange(max(FIRST, auctions - 20), auctions + 2)
                yield bid(chance, ts, wanted, chance.randrange(FIRST, persons + 1))


def person(chance: random.Random, ts: int, number: int) -> Event:
    """Return a new person."""
    state = chance.choice(STATES)
    name = f"{chance.choice(['Ada', 'Alan', 'Grace'])} {number}"
    return {
        "ts": ts,
        "type": "person",
        "id": number,
        "name": name,
        "city": f"{state} City",
        "state": state,
    }


def auction(chance: random.Random, ts: int, number: int, seller: int) -> Event:
    """Return a new auction, which is open for up to four seconds."""
    return {
        "ts": ts,
        "type": "auction",
        "id": number,
        "seller": seller,
        "category": chance.randrange(10, 15),
        "expires": ts + chance.randrange(1, 4000),
    }


def bid(chance: random.Random, ts: int, auction: int, bidder: int) -> Event:
    """Return a bid; most prices are low, some are high, as in the generator."""
    price = round(100 * 10 ** (chance.random() * 5))
    channel = CHANNELS[ts % len(CHANNELS)]
    path = f"https://auctions.example/{ts % 7}/{bidder % 5}/item.htm?query=1"
    number = f"&channel_id={price % 100}" if channel.startswith("channel") else ""
    return {
        "ts": ts,
        "type": "bid",
        "auction": auction,
        "bidder": bidder,
        "price": price,
        "channel": channel,
        "url": path + number,
        "extra": "abc"[: ts % 4] * 3,
    }
