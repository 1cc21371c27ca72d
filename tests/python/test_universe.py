"""Which classes and functions of a program an unknown item may run."""

import fractions
import gc
import json
import sys
import types
import weakref

import pytest

from anabranch.python.universe import Universe

TEXT = """
import collections

class Point:
    def __add__(self, other):
        return self
    @property
    def size(self):
        return 1
    def move(self):
        return 2
    def __init__(self):
        self.moved = False

class Row(dict):
    def __getitem__(self, key):
        return 3

class Child(Point):
    def __add__(self, other):
        return other

def operator(item):
    return item
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    path = tmp_path_factory.mktemp("universe") / "universe_of_test.py"
    path.write_text(TEXT)
    made = types.ModuleType(path.stem)
    made.__file__ = str(path)
    sys.modules[path.stem] = made
    exec(compile(TEXT, str(path), "exec"), vars(made))
    yield made
    del sys.modules[path.stem]


def names(functions):
    return sorted(function.__qualname__ for function in functions)


def test_the_classes_are_those_of_the_modules_that_a_function_reaches(module):
    universe = Universe([module.operator])

    assert {module.Point, module.Row, module.Child} == set(universe.classes)
    assert [] == Universe([len]).classes


def test_an_attribute_of_an_unknown_item_may_be_defined_by_any_class(module):
    universe = Universe([module.operator])

    assert ["Child.__add__", "Point.__add__"] == names(universe.definitions("__add__"))
    assert ["Point.move"] == names(universe.definitions("move"))
    assert [] == universe.definitions("missing")


def test_operators_are_the_special_methods_apart_from_construction(module):
    universe = Universe([module.operator])

    assert ["Child.__add__", "Point.__add__", "Row.__getitem__"] == names(
        universe.operators(None)
    )
    assert ["Point.__add__"] == names(universe.operators(frozenset([module.Point])))
    assert [] == universe.operators(frozenset([list, int]))


def test_subclasses_of_builtin_types_count_only_in_the_program(module):
    assert {module.Row} == Universe([module.operator]).subclasses_of(dict)
    assert set() == Universe([len]).subclasses_of(dict)
    assert {module.Child} == Universe([len]).subclasses_of(module.Point)


def test_fields_are_what_is_assigned_anywhere(module):
    universe = Universe([module.operator])

    assert universe.has_field("moved")
    assert not universe.has_field("move")


def test_what_cannot_be_followed_in_a_container_is_named(module):
    universe = Universe([module.operator])

    assert universe.foreign_part([1, {"a": iter(())}]) == "tuple_iterator"
    assert universe.foreign_part([1, {"a": (2, "b")}]) is None


def test_a_class_that_is_made_after_a_look_at_all_is_seen(module):
    assert len(Universe([module.operator]).classes) == 3

    late = type("Late", (json.JSONEncoder,), {"__module__": module.__name__})

    assert late in Universe([module.operator]).classes


def test_a_class_of_a_package_is_forgotten_with_its_last_use(module):
    made = type("OfPackage", (), {"__module__": "json"})
    gone = weakref.ref(made)
    assert made not in Universe([module.operator]).classes

    del made
    gc.collect()

    assert gone() is None


@pytest.mark.parametrize(
    ("package", "patched", "name"),
    [
        ("json", json, "dumps"),
        ("json", json.JSONEncoder, "default"),
        ("fractions", fractions.Fraction, "numerator"),
    ],
)
def test_a_part_that_is_replaced_after_a_look_at_its_package_is_seen(
    module, monkeypatch, package, patched, name
):
    assert Universe([module.operator]).why_patched(package) is None

    new = property(module.operator) if name == "numerator" else module.operator
    monkeypatch.setattr(patched, name, new)

    found = Universe([module.operator]).why_patched(package)
    assert found is not None
    assert f".{name} was replaced" in found
