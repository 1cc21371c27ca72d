"""The decoded picture against OpenCV's decoder, which is that of libjpeg."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as ab
from tests.apps.loading import ENGINES, load_app
from tests.needs import OPENCV, why_left_out

cv2 = pytest.importorskip("cv2", reason=why_left_out(OPENCV))


@pytest.fixture(scope="module")
def decoder():
    return load_app("decoder")


@pytest.fixture
def road(data, tmp_path):
    """A part of a real frame, whose sides are no multiples of eight, as a file."""
    _, frame = cv2.VideoCapture(str(data / "lane" / "solidWhiteRight.mp4")).read()
    path = tmp_path / "road.jpg"
    cv2.imwrite(str(path), cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)[330:401, 400:517])
    return path


def laid_out(pixels, shape):
    """Lay squares of eight by eight out as a picture, and cut off what sticks out."""
    height, width = shape
    down, across = -(-height // 8), -(-width // 8)
    squares = np.array(pixels).reshape(down, across, 8, 8)
    return squares.swapaxes(1, 2).reshape(8 * down, 8 * across)[:height, :width]


def decoded_by_opencv(path):
    return cv2.imdecode(
        np.frombuffer(path.read_bytes(), np.uint8), cv2.IMREAD_GRAYSCALE
    )


@pytest.mark.parametrize("on", ENGINES)
def test_a_real_picture_is_what_opencv_sees(decoder, road, on):
    """
    To one shade: libjpeg computes with whole numbers.
    """
    sink = decoder.program(road)
    ab.run(sink, on=on)

    expected = decoded_by_opencv(road).astype(int)
    found = laid_out(sink.items, expected.shape)
    assert np.abs(found - expected).max() <= 1
    assert (found == expected).mean() > 0.9


def test_the_drawn_picture_is_what_opencv_sees(decoder, tmp_path):
    path = decoder.sample_picture(tmp_path)
    sink = decoder.program(path)
    ab.run(sink, on="sequential")

    expected = decoded_by_opencv(path).astype(int)
    assert (64, 96) == expected.shape
    assert np.abs(laid_out(sink.items, expected.shape) - expected).max() <= 1
    assert path.stat().st_size < expected.size / 3


def test_a_picture_in_colour_is_refused(decoder, tmp_path):
    path = tmp_path / "colour.jpg"
    cv2.imwrite(str(path), np.zeros((8, 8, 3), np.uint8))

    with pytest.raises(ValueError, match=r"colour\.jpg must be a grey baseline JPEG"):
        decoder.program(path)
