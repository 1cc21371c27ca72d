"""The programs of the benchmark on compiled chains, against StreamIt's own output."""

import pytest

import anabranch as ab
from bench.hybrid.programs import TAPS, fm_radio

COUNT = 300


@pytest.mark.parametrize("engine", ["sequential", "local"])
def test_the_radio_plays_what_streamit_played(engine, data, monkeypatch):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at_once")
    text = (data / "streamit" / "FMRadio.out").read_text().split()
    samples = [float(n) for n in range(5 * (COUNT + TAPS) + TAPS)]
    out = fm_radio(ab.from_iterable(samples, float)).to_list()
    ab.run(out, on=engine)

    # StreamIt computed with floats of 32 bits.
    expected = [float(number) for number in text[:COUNT]]
    assert expected == pytest.approx(out.items[:COUNT], rel=1e-6)
