"""Showers that several stations feel at once, in the noise that each hears alone.

Every station's signal goes through a band-pass filter and then through a detector: how
strong is the last half second against the last ten? A station is alarmed from the time
this ratio exceeds 3.5 until it is below 1 again. Alarms of three or more of the four
stations that overlap are a shower. Three barriers bring the stations together sample by
sample; two windows give the level of the noise by second and by ten seconds. This is the
shape of the Lois application of the paper on auto-pipelining (cosmic rays there, with 22
operators), on the signals of an array of seismometers.

It reads four stations (obspy, 50 and 100 samples a second) from the folder
`multichannel` of the real data, and generated signals where there are none.
"""

import cmath
import math
import random
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from samples import SAMPLES, csv_sample, real_file

RATES_HZ = {"UH1": 50, "UH2": 50, "UH3": 50, "UH4": 100}
LOW_HZ, HIGH_HZ, ORDER = 10.0, 20.0, 4
SHORT_S, LONG_S = 0.5, 10.0
ALARM, CALM = 3.5, 1.0
LEAST_STATIONS = 3

Files = Mapping[str, Path]  # from station to file
Section = tuple[float, float]  # the feedback of a filter of second order
Memory = tuple[tuple[float, float], ...]  # of such filters in a row


class Sample(NamedTuple):
    """What a station hears."""

    t: float
    counts: float


class State(NamedTuple):
    """What a detector remembers."""

    seen: int = 0
    short: float = 0.0
    long: float = 1e-99
    onset: float | None = None


class Watch(NamedTuple):
    """A station at a time; `onset` is when its alarm began, if there is one."""

    station: str
    t: float
    ratio: float
    onset: float | None


class Tick(NamedTuple):
    """All stations at about one time."""

    t: float
    ratio: float  # the greatest
    stations: tuple[Watch, ...]


class Shower(NamedTuple):
    """Alarms that overlap, the stations in the order of their onsets."""

    start: float
    duration: float
    stations: tuple[str, ...]


def band_pass(rate_hz: int) -> tuple[float, tuple[Section, ...]]:
    """Return the gain and the sections of a Butterworth filter.

    The poles of the low-pass filter are moved to the band, and from the plane of
    continuous time to that of samples.
    """
    twice = 2.0 * rate_hz
    low, high = (twice * math.tan(math.pi * f / rate_hz) for f in (LOW_HZ, HIGH_HZ))
    gain, sections = complex(1.0), []
    for number in range(1 - ORDER, ORDER, 2):
        pole = -cmath.exp(1j * math.pi * number / (2 * ORDER)) * (high - low) / 2
        gain *= (high - low) * twice
        for root in (1, -1):
            moved = pole + root * cmath.sqrt(pole * pole - low * high)
            gain /= twice - moved
            sampled = (twice + moved) / (twice - moved)
            if sampled.imag > 0:  # a section takes a pole together with its mirror
                sections.append((-2 * sampled.real, abs(sampled) ** 2))
    return gain.real, tuple(sections)


def filtered(
    gain: float, sections: tuple[Section, ...], memory: Memory, sample: Sample
) -> tuple[Memory, Sample]:
    """Return what the band-pass filter makes of a sample."""
    value, after = gain * sample.counts, []
    for (a1, a2), (one, two) in zip(sections, memory, strict=True):
        output = value + one
        after.append((two - a1 * output, -value - a2 * output))
        value = output
    return tuple(after), Sample(sample.t, value)


def watched(
    station: str, rate_hz: int, state: State, sample: Sample
) -> tuple[State, Watch]:
    """Return how strong the signal is against before, and whether that is alarming."""
    if not state.seen:
        return State(1), Watch(station, sample.t, 0.0, None)
    power = sample.counts**2
    short = state.short + (power - state.short) / (SHORT_S * rate_hz)
    long = state.long + (power - state.long) / (LONG_S * rate_hz)
    ratio = short / long if state.seen >= LONG_S * rate_hz else 0.0
    onset = state.onset
    if onset is None and ratio > ALARM:
        onset = sample.t
    elif ratio <= CALM:
        onset = None
    return State(state.seen + 1, short, long, onset), Watch(
        station, sample.t, ratio, onset
    )


def later_alarm(both: list[Watch]) -> list[Watch]:
    """Return one sample of two, so that no end of an alarm gets lost."""
    first, second = both
    return [first if second.onset is None else second]


def pair(one: Watch, other: Watch) -> Tick:
    """Return two stations together."""
    return Tick(min(one.t, other.t), max(one.ratio, other.ratio), (one, other))


def together(some: Tick, others: Tick) -> Tick:
    """Return all stations together."""
    stations = (*some.stations, *others.stations)
    return Tick(min(some.t, others.t), max(some.ratio, others.ratio), stations)


class Showers(ab.Operator):
    """Collects alarms as long as there is one, and gives them together."""

    def setup(self) -> None:
        """Start in quiet."""
        self.onsets: dict[str, float] = {}
        self.last = 0.0

    def process(self, tick: Tick) -> Iterator[Shower]:
        """Add the alarms of a tick; without one, yield those before it."""
        alarmed = [watch for watch in tick.stations if watch.onset is not None]
        for watch in alarmed:
            self.onsets.setdefault(watch.station, watch.onset or watch.t)
            self.last = max(self.last, watch.t)
        if not alarmed and self.onsets:
            yield from self.finish()
            self.onsets = {}

    def finish(self) -> Iterator[Shower]:
        """Yield the alarms that are open at the end."""
        stations = sorted(self.onsets, key=lambda station: self.onsets[station])
        if stations:
            start = self.onsets[stations[0]]
            yield Shower(start, self.last - start, tuple(stations))


def detector(station: str, path: Path) -> ab.Stream:
    """Return the alarms of a station."""
    rate_hz = RATES_HZ[station]
    gain, sections = band_pass(rate_hz)
    read = ab.read_csv(str(path), Sample, name=station)
    silent = ((0.0, 0.0),) * ORDER
    heard = read.scan(
        partial(filtered, gain, sections), silent, type=Sample, name=f"filter_{station}"
    )
    return heard.scan(
        partial(watched, station, rate_hz), State(), type=Watch, name=f"watch_{station}"
    )


def program(files: Files | None = None) -> list[ab.Result]:
    """Return the showers, and the highest ratios by ten seconds."""
    paths = files or input_files()
    one, two, three, fast = (detector(station, paths[station]) for station in RATES_HZ)
    four = fast.block(later_alarm, pop=2, push=1, type=Watch, name="thin")
    west = ab.barrier(one, two, into=pair, name="west")
    east = ab.barrier(three, four, into=pair, name="east")
    ticks = ab.barrier(west, east, into=together, name="ticks")
    showers = ticks.apply(Showers, name="showers")
    seen = showers.filter(
        lambda shower: len(shower.stations) >= LEAST_STATIONS, name="of_three"
    )
    seconds = ticks.window(time=1, on="t").aggregate(
        t=ab.first("t"), ratio=ab.max("ratio"), name="seconds"
    )
    levels = seconds.window(count=10).aggregate(
        t=ab.first("t"), peak=ab.max("ratio"), mean=ab.mean("ratio"), name="levels"
    )
    return [seen.to_list(name="shower_list"), levels.to_list(name="level_list")]


def input_files() -> Files:
    """Return the file of each station, real ones where they are at hand."""
    real = {
        station: real_file("multichannel", f"{station}.csv") for station in RATES_HZ
    }
    found = {station: path for station, path in real.items() if path}
    return found if len(found) == len(real) else sample_files()


def sample_files(folder: Path = SAMPLES, seconds: int = 24, seed: int = 31) -> Files:
    """Write noise with a burst that all stations hear, and one that only two hear."""
    chance = random.Random(seed)
    files = {}
    for place, (station, rate_hz) in enumerate(RATES_HZ.items()):
        rows = []
        for number in range(seconds * rate_hz):
            t = number / rate_hz
            loud = 13 <= t - place / 20 < 13.6 or (place < 2 and 19 <= t < 19.5)
            wave = 400 * math.sin(2 * math.pi * 14 * t) if loud else 0
            rows.append((f"{1000 + t:.4f}", round(wave + chance.gauss(0, 20))))
        files[station] = csv_sample(f"{station}.csv", Sample._fields, rows, folder)
    return files
