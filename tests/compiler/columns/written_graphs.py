"""Graphs written at random: streams that part and meet, in columns and in Python."""

from __future__ import annotations

import random
import warnings

import anabranch as ab
from tests.compiler.columns.written_functions import (
    HEAD,
    Item,
    Items,
    Rich,
    RichWriter,
    Writer,
)

# Roles of functions that take and give items, and of those with which a stream ends.
INNER = ("replace", "filter", "spread", "split", "python")
LAST = ("map", "scan", "window", "flat_map")
_SEVERAL = ("flat_map", "spread")
_MOST_STREAMS = 6
_TRIES = 8


class GraphWriter:
    """Writes the functions of a graph, and then builds it; the same for the same seed."""

    def __init__(self, seed, sources=2):
        self.rng = random.Random(seed)
        self.rich = self.rng.random() < 0.3
        self.prefix = f"g{seed}_"
        self.sources = self.rng.randrange(1, sources + 1)
        self.texts = []
        self.initials = {}
        self.steps = [self._step(n) for n in range(self.rng.randrange(3, 8))]
        self.ends = [
            self._write(self.rng.choice(LAST), f"e{n}")
            for n in range(self.rng.randrange(1, 4))
        ]
        self.seed = seed

    def _step(self, number):
        role = self.rng.choice((*INNER, *INNER, "union", "union", "marks"))
        if role in INNER:
            return self._write(role, str(number))
        return role, None

    def _write(self, role, suffix):
        name = self.prefix + suffix
        for _ in range(_TRIES):
            writer = (RichWriter if self.rich else Writer)(self.rng.randrange(1 << 30))
            made = getattr(writer, f"write_{role}")(name)
            text, initial = made if role == "scan" else (made, None)
            if self.rng.random() < 0.05 or self._is_gentle(role, name, text, initial):
                break
        if initial is not None:
            self.initials[name] = initial
        self.texts.append(text)
        return role, name

    def _is_gentle(self, role, name, text, initial):
        """Tell whether a function does well on ordinary items: most graphs should."""
        names = {}
        items = Items(random.Random(5), self.rich).make(12, 0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            exec(HEAD + text, names)
        function = names[name]
        try:
            match role:
                case "scan":
                    state = eval(initial, names)
                    for item in items:
                        state, _ = function(state, item)
                case "window":
                    for n in range(1, 5):
                        function(items[-n:])
                case "split":
                    named = [function(item) for item in items]
                    ports = [[n] if isinstance(n, int) else [*n] for n in named]
                    return all(0 <= n < 3 for some in ports for n in some)
                case _:
                    for item in items:
                        list(function(item) if role in _SEVERAL else [function(item)])
        except Exception:  # noqa: BLE001 - functions written at random
            return False
        return True

    def build(self, module, items=None):
        """Return the sinks; `items` are those of each source, if there are any."""
        rng = random.Random(self.seed + 1)
        kind = Rich if self.rich else Item
        given = items or [[]] * self.sources
        streams = [ab.from_iterable(given[n], kind) for n in range(self.sources)]
        found = []  # that something has been done with
        for role, name in self.steps:
            stream = rng.choice(streams[-_MOST_STREAMS:])
            function = getattr(module, name) if name else None
            match role:
                case "replace" | "python":
                    made = [stream.map(function, type=kind)]
                case "filter":
                    made = [stream.filter(function)]
                case "spread":
                    made = [stream.flat_map(function, type=kind)]
                case "split":
                    made = list(stream.split(function, 3))
                case "union":
                    some = rng.sample(streams, min(len(streams), rng.randrange(2, 4)))
                    made = [ab.union(*some)] if len(some) > 1 else []
                case "marks":
                    made = [stream.punctuate(lambda t: t.i % 5 == 0)]
            found += made
            streams += made
        ends = [self._end(module, rng, rng.choice(streams), end) for end in self.ends]
        loose = rng.sample(found, min(len(found), 2))
        return [stream.to_list() for stream in (*ends, *loose)]

    def _end(self, module, rng, stream, end):
        role, name = end
        function = getattr(module, name)
        keyed = stream.key_by(rng.choice(["s", "i"])) if rng.random() < 0.6 else stream
        match role:
            case "map":
                return stream.map(function)
            case "flat_map":
                return stream.flat_map(function)
            case "scan":
                initial = eval(self.initials[name], vars(module))
                return keyed.scan(function, initial)
        size = rng.randrange(1, 5)
        window = rng.choice([{"count": size}, {"count": size, "every": 2}])
        if rng.random() < 0.3:
            window = {"time": size, "on": "ts", "late": "current"}
        return keyed.window(**window).aggregate(function)
