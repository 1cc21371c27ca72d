"""Showers against obspy's, and against filters in the domain of frequencies."""

from __future__ import annotations

import json

import numpy as np
import pytest

import anabranch as ab
from tests.apps.loading import ENGINES, load_app


@pytest.fixture(scope="module")
def lois():
    return load_app("lois")


@pytest.fixture(scope="module")
def sample(lois, tmp_path_factory):
    return lois.sample_files(tmp_path_factory.mktemp("sample"))


def signal(path):
    text = path.read_text().splitlines()
    return np.loadtxt(text, delimiter=",", skiprows=1).T


def filtered(counts, rate_hz):
    """
    By the response of the filter to every frequency, from its definition.
    """
    n = 4 * len(counts)
    z = np.exp(2j * np.pi * np.fft.rfftfreq(n))
    s = 2 * rate_hz * (z - 1) / (z + 1 + 1e-30)
    low, high = 2 * rate_hz * np.tan(np.pi * np.array([10, 20]) / rate_hz)
    poles = np.exp(1j * np.pi * (2 * np.arange(4) + 5) / 8)
    with np.errstate(divide="ignore", invalid="ignore"):
        band = (s * s + low * high) / (s * (high - low))
        response = 1 / np.prod([band - pole for pole in poles], axis=0)
    response[[0, -1]] = 0
    return np.fft.irfft(np.fft.rfft(counts, n) * response, n)[: len(counts)]


def ratios(counts, rate_hz):
    """
    By the weight of every earlier sample in a mean that forgets.
    """
    power = filtered(counts, rate_hz) ** 2
    power[0] = 0
    ages = np.subtract.outer(np.arange(len(power)), np.arange(len(power)))

    def mean(seconds):
        share = 1 / (seconds * rate_hz)
        weights = np.where(ages < 0, 0, share * (1 - share) ** np.maximum(ages, 0))
        return weights @ power

    found = mean(0.5)[1:] / mean(10)[1:]
    return np.where(np.arange(1, len(power)) < 10 * rate_hz, 0, found)


def alarms(path, rate_hz):
    """
    Yield (onset, end) of every stretch above 1 that gets above 3.5.
    """
    times, counts = signal(path)
    found = ratios(counts, rate_hz)
    edges = np.flatnonzero(np.diff(found > 1))
    for stretch in np.split(np.arange(len(found)), edges + 1):
        loud = stretch[found[stretch] > 3.5]
        if loud.size:
            yield times[1 + loud[0]], times[1 + stretch[-1]]


def showers(sink):
    return [(one.start, one.duration, list(one.stations)) for one in sink.items]


def assert_close(wanted, got):
    assert [row[2] for row in wanted] == [row[2] for row in got]
    assert [row[:2] for row in wanted] == [pytest.approx(r[:2], abs=2e-3) for r in got]


@pytest.fixture(scope="module")
def found(lois, sample):
    return {
        station: list(alarms(path, lois.RATES_HZ[station]))
        for station, path in sample.items()
    }


@pytest.mark.parametrize("on", ENGINES)
def test_showers_of_the_sample_are_those_of_frequencies(lois, sample, found, on):
    sinks = lois.program(sample)

    ab.run(*sinks, on=on)

    assert {"UH1": 2, "UH2": 2, "UH3": 1, "UH4": 1} == {
        station: len(spans) for station, spans in found.items()
    }
    start = min(spans[0][0] for spans in found.values())
    end = max(spans[0][1] for spans in found.values())
    order = sorted(found, key=lambda station: found[station][0])
    assert_close([(start, end - start, order)], showers(sinks[0]))


def test_there_are_22_operators_with_three_barriers(lois, sample):
    kinds = [op.kind.label for op in ab.compile(*lois.program(sample)).graph.ops]

    assert (22, 3, 2) == (
        len(kinds),
        kinds.count("barrier"),
        kinds.count("aggregate"),
    )


@pytest.mark.long
def test_real_showers_are_those_of_obspy(lois, data):
    folder = data / "multichannel"
    wanted = json.loads((folder / "expected.json").read_text())["plain3"]
    sinks = lois.program({name: folder / f"{name}.csv" for name in lois.RATES_HZ})

    ab.run(*sinks, on="sequential")

    assert_close(
        [(one["epoch"], one["duration"], one["stations"]) for one in wanted],
        showers(sinks[0]),
    )


@pytest.mark.long
def test_real_ratios_of_a_station_are_those_of_obspy(lois, data):
    folder = data / "multichannel"
    wanted = signal(folder / "expected_recstalta_UH1.csv")[1]

    got = ab.testing.outputs(lois.detector("UH1", folder / "UH1.csv"))

    assert wanted.tolist() == pytest.approx([one.ratio for one in got], abs=1e-7)
