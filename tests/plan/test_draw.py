"""Drawings: everything is on the paper, nothing overlaps, any name is allowed."""

from dataclasses import replace
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings

import anabranch as ab
from anabranch.compiler.make_plan import make_plan
from anabranch.graph.graph import Graph
from anabranch.plan.draw import draw_svg, lay_out
from tests import needs
from tests.compiler.generate import programs
from tests.compiler.notation import program
from tests.programs.generate import program as whole_program

SVG = "{http://www.w3.org/2000/svg}"


def words(svg):
    return [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_operators_regions_joints_and_orderings_are_named():
    graph, traits = program("src[parallel] -> a -> b[key=k] -> x[global] -> sink")

    shown = words(draw_svg(graph, make_plan(graph, traits)))

    expected = {"src", "a", "b", "x", "sink", "r0", "r1 by k", "parallel source"}
    expected |= {
        "contiguous",
        "shuffle",
        "merge",
        "strict",
        "map by k",
        "map, one state",
    }
    assert set() == expected - set(shown)


def test_names_are_escaped():
    graph, traits = program("src -> a -> sink")
    plan = make_plan(graph, traits)
    ops = [replace(op, name="<&>") if op.name == "src" else op for op in graph]
    ops[1] = replace(ops[1], inputs=(ops[1].inputs[0]._replace(operator="<&>"),))

    assert "<&>" in words(draw_svg(Graph(tuple(ops)), plan))


@settings(max_examples=needs.count_examples(20, 60), deadline=None)
@given(programs())
def test_no_two_boxes_overlap_and_all_are_on_the_paper(made):
    graph, traits = made
    root = ET.fromstring(draw_svg(graph, make_plan(graph, traits)))
    width, height = float(root.get("width")), float(root.get("height"))
    boxes = [
        tuple(float(rect.get(side)) for side in ("x", "y", "width", "height"))
        for rect in root.iter(f"{SVG}rect")
        if rect.get("rx") == "8"  # operators
    ]

    assert len(graph.ops) == len(boxes)
    for x, y, w, h in boxes:
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
    for index, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[index + 1 :]:
            apart = x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
            assert apart


def test_a_chain_is_straight():
    graph, _ = program("src -> a -> b -> c -> sink")

    made = lay_out(graph, {"b": "r0"}, {None: 60.0, "r0": 120.0})

    assert 1 == len({round(y, 6) for y in made.y_of.values()})
    assert {"src": 0, "a": 1, "b": 2, "c": 3, "sink": 4} == made.layer_of


def test_a_source_stands_next_to_its_consumer():
    graph, _ = program("one -> a -> b -> u; two -> u -> sink")

    assert 2 == lay_out(graph, {}, {None: 60.0}).layer_of["two"]


@settings(max_examples=needs.count_examples(20, 50), deadline=None)
@given(programs())
def test_no_operator_lies_in_the_area_of_a_region_that_it_is_not_in(made):
    graph, traits = made

    assert [] == find_strangers(graph, make_plan(graph, traits))


@pytest.mark.parametrize("seed", range(8))
def test_no_operator_lies_in_the_area_of_a_region_that_parts_and_meets(seed):
    made = ab.compile(*whole_program(seed, graphs=True).build())

    assert [] == find_strangers(made.graph, made.plan)


def find_strangers(graph, plan):
    """Return the operators that lie in an area of a region that they are not in."""
    root = ET.fromstring(draw_svg(graph, plan))
    inside = {region.name: {*region.operators} for region in plan.regions}
    boxes = {
        group.get("data-operator"): box_of(group.find(f"{SVG}rect"))
        for group in root.iter(f"{SVG}g")
        if group.get("data-operator")
    }
    found = []
    for group in root.iter(f"{SVG}g"):
        region = group.get("data-region")
        for rect in group.findall(f"{SVG}rect") if region else ():
            x, y, w, h = box_of(rect)
            found += [
                (region, name)
                for name, (left, top, width, height) in boxes.items()
                if left < x + w
                and left + width > x
                and top < y + h
                and top + height > y
                if name not in inside[region]
            ]
    return found


def box_of(rect):
    return tuple(float(rect.get(side)) for side in ("x", "y", "width", "height"))


def parted():
    """A region that parts around operators of others."""
    lines = ab.read_text("lines.txt", name="lines")
    raised = lines.map(str.upper, name="raised")
    plain = raised.filter(str.isalpha, name="plain")
    first = raised.scan(lambda state, text: (state + 1, text), 0, name="first")
    second = first.scan(lambda state, text: (state + 1, text), 0, name="second")
    return ab.compile(plain.to_list(name="words"), second.to_list(name="all"))


def test_the_streams_that_enter_and_leave_a_region_are_marked():
    made = parted()

    root = ET.fromstring(draw_svg(made.graph, made.plan))

    [region] = made.plan.regions
    assert {"lines", "raised", "plain"} <= {*region.operators}
    assert 2 == len([*root.iter(f"{SVG}circle")])  # from raised and from plain


def test_what_ends_a_region_can_be_read_in_the_drawing():
    made = parted()

    root = ET.fromstring(draw_svg(made.graph, made.plan))

    [area] = (g for g in root.iter(f"{SVG}g") if g.get("data-region"))
    assert "first: scan carries a state along" in area.find(f"{SVG}title").text


class Row(NamedTuple):
    user: str
    amount: int


def test_connected_operators_share_a_frame_where_others_tear_the_region():
    rows = ab.read_csv("rows.csv", Row, name="rows").map(lambda row: row, name="same")
    large = rows.filter(lambda row: row.amount > 9, name="large")
    counts = rows.key_by("user").scan(lambda n, row: (n + 1, row), 0, name="counts")
    others = ab.read_csv("others.csv", Row, name="others")
    pairs = large.join(others, on="user", left_window=1, right_window=1)
    made = ab.compile(counts.to_list(), pairs.to_list())
    assert ("rows", "same", "large") == made.plan.regions[0].operators

    root = ET.fromstring(draw_svg(made.graph, made.plan))

    [area] = (g for g in root.iter(f"{SVG}g") if g.get("data-region") == "r0")
    frames = [box_of(rect) for rect in area.findall(f"{SVG}rect")]
    assert 2 == len(frames)  # one around rows and same, one around large
