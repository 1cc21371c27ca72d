"""Which operators of a program have kernels, and what the plan says of the others."""

from typing import NamedTuple

import anabranch as ab


class Priced(NamedTuple):
    """A record of numbers."""

    ts: int
    price: float


def doubled(item: Priced) -> Priced:
    return item._replace(price=item.price * 2.0)


def says_tuple(x: float) -> tuple:
    return x * 2.0


def chooses(x: float) -> float:
    y = x + 1.0
    return (0.5, y)[x]


def calls_one_that_does_not(x: float) -> float:
    return 1.0 + chooses(x)


def pair_by_float(window: list[float]) -> list[float]:
    return [window[window[0]]]


def subgraph(item_type, function):
    stream = ab.from_iterable([], item_type).map(function, name="op")
    return ab.compile(stream.to_list()).to_dict()["subgraphs"][0]


def line_of(function, line):
    return f"test_eligible.py:{function.__code__.co_firstlineno + line}"


def test_a_function_of_numbers_has_a_kernel():
    assert "numba" == subgraph(Priced, doubled)["compiled"]


def test_a_function_that_is_annotated_as_something_else_has_none():
    found = subgraph(float, says_tuple)

    assert "python" == found["compiled"]
    assert "gives something else than its annotation says" in found["why"]


def test_the_reason_names_the_function_and_the_line():
    found = subgraph(float, chooses)

    assert "takes an item by a float, which raises TypeError" in found["why"]
    assert line_of(chooses, 0) in found["why"]
    assert line_of(chooses, 2) in found["why"]


def test_the_line_is_in_the_function_that_is_called():
    found = subgraph(float, calls_one_that_does_not)

    assert line_of(calls_one_that_does_not, 0) in found["why"]
    assert line_of(chooses, 2) in found["why"]


def test_the_explanation_has_the_reason():
    stream = ab.from_iterable([], float).map(abs, name="size")
    stream = stream.block(pair_by_float, pop=2, push=1)
    text = " ".join(ab.explain(stream.to_list()).split())

    assert "runs as numba (size; but block: pair_by_float" in text
    assert "takes an item by a float" in text
    assert line_of(pair_by_float, 1) in text
