"""A plan as data: the shape of the public interface, there and back."""

import json

import pytest
from hypothesis import given, settings

from anabranch.compiler.make_plan import make_plan
from anabranch.errors import PlanError
from anabranch.plan.json import from_dict, from_json, to_dict, to_json
from tests import needs
from tests.compiler.generate import programs
from tests.compiler.notation import program


@settings(max_examples=needs.count_examples(20, 50), deadline=None)
@given(programs())
def test_a_plan_survives_the_way_through_json(made):
    plan = make_plan(*made)

    assert plan == from_json(to_json(plan))


def test_shape_of_the_interface():
    data = to_dict(
        make_plan(*program("src -> a[key=k, push=0..*] -> x[pop=*] -> sink"))
    )
    a, x = data["operators"][1:3]

    parts = {"operators", "subgraphs", "regions", "sequential", "elements"}
    parts |= {"together", "one_thread"}
    assert parts == set(data)
    assert ("keyed", ["k"], 1, [0, None], "all", []) == (
        a["state"],
        a["key"],
        a["pop"],
        a["push"],
        a["forwards"],
        a["reasons"],
    )
    assert "*" == x["pop"]
    assert ["a"] == data["regions"][0]["operators"]
    assert "relaxed" == data["regions"][0]["ordering"] == data["regions"][0]["order"]
    assert ["src", "x", "sink"] == [one["operator"] for one in data["sequential"]]
    assert [["src"], ["a"], ["x", "sink"]] == [e["operators"] for e in data["elements"]]
    assert data == json.loads(json.dumps(data))


def test_a_subgraph_says_how_it_runs():
    plan = make_plan(*program("src -> a[block=1>2] -> b[block=1>1] -> sink"))
    (subgraph,) = to_dict(plan)["subgraphs"]

    assert (["a", "b"], "python") == (subgraph["operators"], subgraph["compiled"])


def test_what_is_not_a_plan_is_refused():
    with pytest.raises(PlanError, match="written by another version"):
        from_dict({"operators": [{"name": "a"}]})
