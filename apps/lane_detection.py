"""The two lines of a lane in every frame of a film taken from a car.

Each frame goes through the same steps: find edges in the part where the road is, find
straight stretches among the edges, and fit a line to those that lean to either side.
Frames do not depend on each other, so many are worked on at once; only the last stage
remembers a line, for frames in which it cannot be seen. This is the lane detection of
the paper on latency-aware parallelism: an ordinary loop with marked stages, which also
runs as it stands.

It reads a film (Udacity, 221 frames) from the folder `lane` of the real data, and frames
that it draws where there is none. It needs OpenCV: pip install 'anabranch[lane]'. What
OpenCV does cannot be looked into, so the two functions that call it declare it.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

import anabranch as ab
from samples import real_file

WIDTH, HEIGHT = 960, 540
FAR, NEAR = 350, 530  # rows of pixels at which lines are told
ROAD = np.array([[(60, 540), (445, 318), (515, 318), (930, 540)]])

Line = tuple[float, float]  # where it is at FAR and at NEAR


class Frame(NamedTuple):
    """A picture, with three bytes a pixel or, as edges, with one."""

    number: int
    pixels: Any


class Stretches(NamedTuple):
    """Straight edges of a frame, each as x1, y1, x2, y2."""

    number: int
    found: list[tuple[int, int, int, int]]


class Lane(NamedTuple):
    """The lines of a frame; None where there is none to be seen."""

    number: int
    left: Line | None
    right: Line | None


@ab.declare(state="stateless")
def edges(frame: Frame) -> Frame:
    """Return the edges on the road."""
    grey = cv2.cvtColor(frame.pixels, cv2.COLOR_BGR2GRAY)
    found = cv2.Canny(cv2.GaussianBlur(grey, (5, 5), 0), 50, 150)
    road = cv2.fillPoly(np.zeros_like(found), ROAD, 255)
    return Frame(frame.number, found & road)


@ab.declare(state="stateless")
def stretches(frame: Frame) -> Stretches:
    """Return the straight stretches among edges."""
    found = cv2.HoughLinesP(
        frame.pixels, 1, np.pi / 180, 15, minLineLength=20, maxLineGap=30
    )
    rows = [] if found is None else found.reshape(-1, 4).tolist()
    return Stretches(frame.number, [tuple(row) for row in rows])


def lane(stretches: Stretches) -> Lane:
    """Return the line that leans to the right and the one that leans to the left."""
    leaning = [(lean(stretch), stretch) for stretch in stretches.found]
    left = [stretch for slope, stretch in leaning if -1.2 < slope < -0.45]
    right = [stretch for slope, stretch in leaning if 0.45 < slope < 1.2]
    return Lane(stretches.number, fitted(left), fitted(right))


def lean(stretch: tuple[int, int, int, int]) -> float:
    """Return how many rows down a stretch goes for one pixel to the right."""
    x1, y1, x2, y2 = stretch
    return (y2 - y1) / (x2 - x1) if x2 != x1 else 99.0


def fitted(some: list[tuple[int, int, int, int]]) -> Line | None:
    """Return the line through some stretches, the longer of which count for more."""
    if not some:
        return None
    x1, y1, x2, y2 = np.array(some, dtype=float).T
    weights = np.tile(np.hypot(x2 - x1, y2 - y1), 2)
    slope, start = np.polyfit(
        np.concatenate([y1, y2]), np.concatenate([x1, x2]), 1, w=weights
    )
    return float(slope * FAR + start), float(slope * NEAR + start)


def remembered(last: Lane, now: Lane) -> Lane:
    """Return a lane with the lines of before where there are none now."""
    return Lane(now.number, now.left or last.left, now.right or last.right)


@ab.to_stream
def lanes(film: Path | None) -> None:
    """Find the lane in every frame of a film."""
    seen = Lane(-1, None, None)
    for frame in frames(film):
        with ab.stage(name="detect", inputs="frame", outputs="now"):
            found = stretches(edges(frame))
            now = lane(found)
        with ab.stage(name="remember", inputs="now", outputs="seen"):
            seen = remembered(seen, now)


def program(film: Path | None = None) -> ab.Result:
    """Return the lane in every frame."""
    return lanes.stream(film or real_file("lane", "solidWhiteRight.mp4"))


def frames(path: Path | None) -> Iterator[Frame]:
    """Yield the frames of a film; without one, of a film that is drawn."""
    if path is None:
        yield from drawn()
        return
    film = cv2.VideoCapture(str(path))
    number = 0
    while True:
        there, pixels = film.read()
        if not there:
            return
        yield Frame(number, pixels)
        number += 1


def drawn(number: int = 20, seed: int = 41) -> Iterator[Frame]:
    """Yield frames of a noisy grey road with the lines of `true_lane`, one dashed."""
    chance = np.random.default_rng(seed)
    for count in range(number):
        pixels = chance.integers(80, 90, (HEIGHT, WIDTH, 3)).astype(np.uint8)
        left, right = true_lane(count)
        for line, dash in ((left, 1), (right, 2)):
            for y in range(FAR - 20, HEIGHT):
                if y // 30 % dash == 0:
                    x = line[0] + (line[1] - line[0]) * (y - FAR) / (NEAR - FAR)
                    pixels[y, round(x) - 4 : round(x) + 5] = 235
        yield Frame(count, pixels)


def true_lane(number: int) -> tuple[Line, Line]:
    """Return where the lines of a drawn frame are."""
    sway = random.Random(number).uniform(-10, 10)
    return (415 + sway, 180 + sway), (555 + sway, 830 + sway)
