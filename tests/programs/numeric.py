"""Generated programs of fixed rates over numbers."""

import math

from hypothesis import strategies as st

import anabranch as ab

TAPS = (0.5, -0.25, 2.0)


def double(x: float) -> float:
    return x * 2.0


def inverse(x: float) -> float:
    return 1.0 / x


def root(x: float) -> float:
    return math.sqrt(x) if x >= 0 else -x


def smooth(window):
    return [sum(x * tap for x, tap in zip(window, TAPS, strict=True))]


def pairs(window):
    return [window[0] + window[1], window[0] - window[1]]


def last(window):
    return [window[-1]]


def thrice(window):
    return [window[0], window[0] + 1.0, window[0] / 3.0]


def text(x):
    return str(x)


def small(x):
    return abs(x) < 3


STEPS = {
    "double": lambda s: s.map(double),
    "inverse": lambda s: s.map(inverse),
    "root": lambda s: s.map(root),
    "smooth": lambda s: s.block(smooth, pop=1, push=1, peek=3),
    "smooth by two": lambda s: s.block(smooth, pop=2, push=1, peek=3),
    "pairs": lambda s: s.block(pairs, pop=2, push=2),
    "last": lambda s: s.block(last, pop=3, push=1, peek=4),
    "thrice": lambda s: s.block(thrice, pop=1, push=3),
    "in Python": lambda s: s.map(text).map(float),
    "filter": lambda s: s.filter(small),
    "duplicate": lambda s: s.pipe(
        ab.split_join(
            ab.duplicate(),
            [
                lambda b: b.block(smooth, pop=1, push=1, peek=3),
                lambda b: b.map(double),
                lambda b: b,
            ],
            ab.round_robin(),
        )
    ),
    "deal": lambda s: s.pipe(
        ab.split_join(
            ab.round_robin([2, 1]),
            [
                lambda b: b.block(pairs, pop=2, push=2),
                lambda b: b.block(thrice, pop=1, push=3).block(last, pop=3, push=1),
            ],
            ab.round_robin([2, 1]),
        )
    ),
}

steps = st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5)
floats = st.one_of(
    st.floats(-5, 5), st.sampled_from([0.0, -0.0, 1.0, math.inf, math.nan, 1e300])
)
items = st.lists(floats, max_size=60)


def stream(names, source):
    """Return the stream behind a source."""
    for name in names:
        source = STEPS[name](source)
    return source
