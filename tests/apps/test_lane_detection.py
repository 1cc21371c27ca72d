"""Lanes against the lines that six people drew, and against the lines that we drew."""

from __future__ import annotations

import csv

import pytest

import anabranch as ab
from tests.apps.loading import ENGINES, load_app
from tests.needs import OPENCV, why_left_out

pytest.importorskip("cv2", reason=why_left_out(OPENCV))


@pytest.fixture(scope="module")
def lane_detection():
    return load_app("lane_detection")


def places(lane):
    return (*lane.left, *lane.right)


@pytest.mark.parametrize("on", ENGINES)
def test_lanes_of_drawn_frames_are_where_they_were_drawn(
    lane_detection, on, monkeypatch, tmp_path
):
    monkeypatch.setenv("ANABRANCH_DATA", str(tmp_path))
    sink = lane_detection.program()

    ab.run(sink, on=on)

    assert list(range(20)) == [lane.number for lane in sink.items]
    for lane in sink.items:
        left, right = lane_detection.true_lane(lane.number)
        assert (*left, *right) == pytest.approx(places(lane), abs=6)


def test_a_line_that_is_not_seen_is_remembered(lane_detection):
    before = lane_detection.Lane(0, (1.0, 2.0), (3.0, 4.0))
    now = lane_detection.Lane(1, None, (5.0, 6.0))

    wanted = lane_detection.Lane(1, (1.0, 2.0), (5.0, 6.0))
    assert wanted == lane_detection.remembered(before, now)


def test_frames_are_worked_on_at_once(lane_detection):
    plan = ab.compile(lane_detection.program(), on="local").plan

    assert [("detect",)] == [region.operators for region in plan.regions]


@pytest.mark.long
def test_lanes_of_a_film_are_those_that_people_saw(lane_detection, data):
    """
    Within twice the spread of most people, on 95% of the frames, for every place.
    """
    stored = (data / "lane" / "expected_lane_consensus.csv").read_text().splitlines()
    wanted = list(csv.DictReader(stored))
    sink = lane_detection.program(data / "lane" / "solidWhiteRight.mp4")

    ab.run(sink, on="sequential")

    assert len(wanted) == len(sink.items)
    ends = [("left", "350"), ("left", "530"), ("right", "350"), ("right", "530")]
    for place, (side, y) in enumerate(ends):
        least = 10 if y == "350" else 20
        near = [
            abs(places(lane)[place] - float(row[f"{side}_x_y{y}"]))
            <= max(least, 2 * float(row[f"p80dev_{side[0]}{y}"]))
            for lane, row in zip(sink.items, wanted, strict=True)
        ]
        assert sum(near) >= 0.95 * len(near), (side, y)


def as_it_stands(lane_detection, film):
    """Run the loop as the function that it is; return what its last stage gave."""
    found, remembered = [], lane_detection.remembered

    def noted(before, now):
        found.append(remembered(before, now))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lane_detection, "remembered", noted)
        lane_detection.lanes(film)
    return found


@pytest.mark.parametrize("on", ENGINES)
def test_every_engine_finds_what_the_function_finds(lane_detection, on):
    sink = lane_detection.lanes.stream(None)

    ab.run(sink, on=on, degree=None if on == "sequential" else 3)

    assert as_it_stands(lane_detection, None) == sink.items


@pytest.mark.long
def test_a_film_under_a_latency_goal_has_the_same_lanes(lane_detection, data):
    film = data / "lane" / "solidWhiteRight.mp4"
    sink = lane_detection.program(film)

    ab.run(sink, on="local", goal=ab.latency("50 ms", step="100 ms", replicas=4))

    assert as_it_stands(lane_detection, film) == sink.items
