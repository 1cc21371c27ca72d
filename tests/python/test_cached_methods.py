"""A cache of a class knows its objects by identity, so a state of it is not copied."""

from __future__ import annotations

import functools

import pytest

import anabranch as ab
from anabranch.compiler.compile import compile_graph
from anabranch.compiler.options import LOCAL, SPARK
from anabranch.language.drafts import build_graph


class Counts(ab.Operator):
    def setup(self):
        self.calls = 0

    @functools.lru_cache(maxsize=8)  # noqa: B019 - it keeps operators alive
    def number_of(self, n: int):
        self.calls += 1
        return self.calls + n

    def process(self, n: int):
        yield self.number_of(n)


class Constant(ab.Operator):
    """Never changes, so that a copy computes the same again."""

    def setup(self):
        self.rate = 2

    @functools.lru_cache(maxsize=8)  # noqa: B019 - it keeps operators alive
    def scaled(self, n: int):
        return self.rate * n

    def process(self, n: int):
        yield self.scaled(n)


class Own(ab.Operator):
    """Its cache is part of its state."""

    def setup(self):
        self.calls = 0
        self.number_of = functools.lru_cache(maxsize=8)(self._number)

    def _number(self, n: int):
        self.calls += 1
        return self.calls + n

    def process(self, n: int):
        yield self.number_of(n)


@functools.cache
def square(n: int):
    return n * n


class OfModule(ab.Operator):
    """Calls a cached function that has no state."""

    def setup(self):
        self.total = 0

    def process(self, n: int):
        self.total += square(n)
        yield self.total


def plan_for(kind, target):
    stream = ab.from_iterable(range(24), int).key_by(lambda n: n % 3).apply(kind)
    return compile_graph(build_graph([stream.to_list()]), target).plan


def test_a_state_that_a_cache_of_its_class_knows_is_not_copied():
    why = plan_for(Counts, SPARK).one_thread
    assert "self.number_of(n) has a cache that knows Counts objects by identity" in why
    assert not plan_for(Counts, LOCAL).one_thread


@pytest.mark.parametrize("kind", [Constant, Own, OfModule])
def test_other_caches_keep_a_program_with_many_threads(kind):
    assert not plan_for(kind, SPARK).one_thread


def test_a_cached_function_of_a_module_keeps_an_operator_parallel():
    assert plan_for(OfModule, SPARK).regions
