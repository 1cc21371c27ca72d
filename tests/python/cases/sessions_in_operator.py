# apply by user | keyed | push 0..
from collections import deque
from typing import NamedTuple

import anabranch as ab


class Item(NamedTuple):
    ts: int
    user: str
    page: str


class Session(NamedTuple):
    user: str
    started: int
    pages: tuple[str, ...]


class operator(ab.Operator):
    GAP = 1_800

    def setup(self):
        self.pages = []
        self.recent = deque(maxlen=5)
        self.visits = {}
        self.started = None
        self.last = None

    def process(self, item):
        if self.last is not None and item.ts - self.last.ts > self.GAP:
            yield from self.close()
        if self.started is None:
            self.started = item.ts
        self.last = item
        self.pages.append(item.page)
        self.recent.append(item.page)
        self.visits[item.page] = self.visits.get(item.page, 0) + 1

    def close(self):
        yield Session(self.last.user, self.started, tuple(self.pages))
        self.pages.clear()
        self.started = None

    def finish(self):
        if self.pages:
            yield from self.close()
