# map | stateless | forwards ip
import re
from typing import NamedTuple

BROWSERS = [
    ("firefox", re.compile(r"Firefox/(\d+)")),
    ("chrome", re.compile(r"Chrome/(\d+)")),
]


class Item(NamedTuple):
    ip: str
    agent: str


class Client(NamedTuple):
    ip: str
    browser: str
    version: int


def classify(agent):
    for name, pattern in BROWSERS:
        if found := pattern.search(agent):
            return name, int(found.group(1))
    return "other", 0


def operator(item):
    browser, version = classify(item.agent)
    return Client(item.ip, browser, version)
