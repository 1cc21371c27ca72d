"""The options of `run` and `start` are declared and explained in one place."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc

import pytest

import anabranch as ab
from anabranch.run_options import Keywords, RunOptions

OPTIONS = {one.name: one for one in dataclasses.fields(RunOptions)}


def test_type_checkers_see_the_options_that_there_are():
    declared = {name: str(one.type) for name, one in OPTIONS.items()}

    assert declared == {
        name: kind.__forward_arg__ for name, kind in Keywords.__annotations__.items()
    }


@pytest.mark.parametrize("function", [ab.run, ab.start], ids=["run", "start"])
def test_help_shows_and_explains_every_option(function):
    parameters = inspect.signature(function).parameters
    text = pydoc.plain(pydoc.render_doc(function))

    assert ["sinks", *OPTIONS] == list(parameters)
    assert {"spark"} == {parameters["on"].default}
    assert [] == [name for name in OPTIONS if f"- `{name}`:" not in text]


@pytest.mark.parametrize("function", [ab.run, ab.start], ids=["run", "start"])
def test_an_unknown_option_is_refused_by_the_name_of_the_function(function):
    sink = ab.from_iterable([1]).to_list()

    told = rf"{function.__name__}\(\) got an unexpected keyword argument 'degre'"
    with pytest.raises(TypeError, match=told):
        function(sink, degre=2)


def test_options_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunOptions().degree = 2
