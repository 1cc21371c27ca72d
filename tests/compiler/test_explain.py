"""The explanation: what it must say, and that it fits the terminal."""

from dataclasses import replace

from hypothesis import given, settings

import anabranch as ab
from anabranch.compiler.explain import explain
from anabranch.compiler.make_plan import make_plan
from anabranch.graph.kind import Evidence
from tests import needs
from tests.compiler.generate import programs
from tests.compiler.notation import program


def explained(text):
    graph, traits = program(text)
    return explain(graph, traits, make_plan(graph, traits))


def test_a_region_is_told_with_its_key_joints_order_and_end():
    text = explained("src -> a[push=0..1] -> b[key=k] -> x[global] -> sink")

    for words in (
        "2 of 5 operators can run in parallel, in 1 region.",
        "r0: a -> b\n    key k; at most one output for each item\n",
        "begins with a split: ",
        "ends with a merge: ",
        "order: strict, the cheapest safe ordering: 0 to 1 outputs for each item",
        "stops before x: x counts",
    ):
        assert words in text


def test_what_is_sequential_is_told_with_its_line():
    assert "x (job.py:2): x counts" in explained("src -> x[global] -> sink")


def test_the_line_that_forces_it_is_quoted(tmp_path):
    file = tmp_path / "job.py"
    file.write_text("def score(item):\n    global total\n")
    graph, traits = program("src -> x[global] -> sink")
    evidence = Evidence("state", "writes the global total", str(file), 2)
    traits["x"] = replace(traits["x"], evidence=(evidence,))

    text = explain(graph, traits, make_plan(graph, traits))

    assert "writes the global total" in text
    assert "2: global total" in text


def test_the_sequential_engine_is_not_said_to_compile():
    numbers = ab.from_iterable([1, 2], int)
    out = numbers.map(lambda n: n * 2.0).filter(lambda x: x > 1).to_list()

    told = {on: ab.explain(out, on=on) for on in ("sequential", "local")}

    assert "map: columns (compiled" in told["local"]
    assert "columns" not in told["sequential"]
    assert "numba" not in told["sequential"]


def test_a_program_without_parallelism_says_so():
    assert explained("src -> sink").startswith("None of the 2 operators can run")


def test_fixed_rates_are_told_where_they_matter():
    text = explained("src -> a[block=2>1] -> b -> c[block=3>1] -> sink")

    assert "a, b, c: runs as python (not numeric: a: " in " ".join(text.split())


@settings(max_examples=needs.count_examples(20, 60), deadline=None)
@given(programs())
def test_every_operator_is_told_of_and_no_line_is_too_long(made):
    graph, traits = made

    text = explain(graph, traits, make_plan(graph, traits))

    assert [] == [line for line in text.splitlines() if len(line) > 88]
    assert set() == {name for name in graph.names if name not in text}
