"""Compares a kernel with the function that it was traced from, firing by firing.

The text of a kernel is run by Python on NumPy's scalars, which wrap around at 64 bits
and divide by zero as compiled code does; an index outside of an array is an error.
Run by hand on many seeds: `python -m tests.compiler.numeric.differential FIRST COUNT`.
"""

# ruff: noqa: T201 - a script, too

import linecache
import math
import random
import struct
import sys
import types
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from anabranch.compiler.numeric import statements
from anabranch.compiler.numeric.kernels import Firing, layout_of, make_kernel
from anabranch.compiler.numeric.values import RefusedError
from anabranch.runtime.compiled.arrays import DTYPES, to_items
from tests.compiler.numeric.generated import HEAD, write_function

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 3.5, -2.5, math.inf, -math.inf, math.nan]
FLOATS += [1e308, -1e308, 5e-324, 100.0, 255.5, 2.0**53, -7.0, 0.1, 709.9, -745.2]
INTS = [0, 1, -1, 2, 3, -3, 7, 100, 2**31, -(2**31), 2**31 - 1, 65536, -65537]
FIRINGS = 24


@dataclass(frozen=True)
class Case:
    """A function, its kernel, and how its items and outputs lie in arrays."""

    seed: int
    source: str
    module: types.ModuleType
    firing: Firing
    kernel: object
    takes: object
    gives: object


class OddError(Exception):
    """The tracer failed in another way than by refusing."""


def make_case(seed):
    """Return the case of a seed; raise `RefusedError` if there is no kernel."""
    written = write_function(seed)
    module = _load(written.source, f"<generated {seed}>")
    firing = Firing(
        "op",
        module.fn,
        written.pop,
        written.push,
        written.peek,
        single=written.single,
        gives_list=written.gives_list,
    )
    types_of = {"float": float, "int": int, "bool": bool, "Point": module.Point}
    takes = layout_of(types_of[written.item])
    with _rolling_short_loops(seed % 3 > 0):
        kernel, gives = make_kernel(firing, takes)
    return Case(seed, written.source, module, firing, kernel, takes, gives)


@contextmanager
def _rolling_short_loops(rolling):
    """Let loops stay loops that would be unrolled: they are quick to run, and many."""
    usual = statements.UNROLLED
    statements.UNROLLED = 8 if rolling else usual
    try:
        yield
    finally:
        statements.UNROLLED = usual


def _load(source, filename):
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    module = types.ModuleType(filename)
    sys.modules[filename] = module  # where a NamedTuple's types are looked up
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, filename, "exec"), vars(module))
    return module


def make_items(case, count):
    """Return items: ordinary numbers and odd ones."""
    chance = random.Random(case.seed)
    calm = chance.random() < 0.4

    def number(kind):
        odd = not calm and chance.random() < 0.4
        if kind == "bool":
            return chance.random() < 0.5
        if kind == "int":
            return chance.choice(INTS) if odd else chance.randrange(-9, 9)
        return chance.choice(FLOATS) if odd else chance.uniform(-3, 3)

    rows = [[number(c.kind) for c in case.takes.columns] for _ in range(count)]
    if case.takes.type is None:
        return [row[0] for row in rows]
    return [case.takes.type(*row) for row in rows]


def show(value):
    """Tell values apart as no comparison does: -0.0, True, 1 and 1.0 differ."""
    if isinstance(value, tuple):
        return (type(value).__name__, *map(show, value))
    if isinstance(value, float) and not math.isnan(value):
        return struct.pack("<d", value)
    return (type(value).__name__, repr(value))


def fire_in_python(case, window):
    """Return what the function gives, or the exception that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = case.module.fn(window[0] if case.firing.single else window)
            given = list(given) if case.firing.gives_list else [given]
    except Exception as error:  # noqa: BLE001 - whatever users raise
        return error
    if len(given) != case.firing.push:
        return ValueError(f"gives {len(given)} items")
    return given


def fire_kernel(case, fire, items, count):
    """Return what some firings of a kernel give; None if Python has to do it."""
    kernel = case.kernel
    rows = [[item] for item in items] if case.takes.type is None else items
    arrays = [
        np.array([row[place] for row in rows], DTYPES[column.kind])
        for place, column in enumerate(kernel.takes)
    ]
    out = [np.zeros(count * kernel.push, DTYPES[c.kind]) for c in kernel.gives]
    if fire(count, *arrays, *out, np.array(kernel.constants, np.float64)):
        return None
    for array, column in zip(out, kernel.gives, strict=True):
        if column.kind == "int":
            assert column.low <= array.min()
            assert array.max() <= column.high
    return to_items(out, case.gives.type)


def find_difference(case, fire):
    """Return how a kernel differs from its function, or None."""
    pop, peek, push = case.firing.pop, case.firing.peek, case.firing.push
    items = make_items(case, (FIRINGS - 1) * pop + peek)
    good = []
    for number in range(FIRINGS):
        window = items[number * pop : number * pop + peek]
        expected = fire_in_python(case, window)
        try:
            given = fire_kernel(case, fire, window, 1)
        except (IndexError, AssertionError, OverflowError, ZeroDivisionError) as error:
            return f"{window}: {expected!r} in Python, {error!r} in the kernel"
        if given is None:
            continue
        if isinstance(expected, Exception) or show_all(expected) != show_all(given):
            return f"{window}: {expected!r} in Python, {given!r} in the kernel"
        good.append((window, expected))
    return _find_difference_in_lanes(case, fire, good, push) if pop == peek else None


def _find_difference_in_lanes(case, fire, good, push):
    """Return how firings differ that go side by side through one call."""
    items = [item for window, _ in good for item in window]
    given = fire_kernel(case, fire, items, len(good)) if good else []
    if given is None:
        return "a firing is good alone, and fails beside others"
    for number, (window, expected) in enumerate(good):
        own = given[number * push : (number + 1) * push]
        if show_all(expected) != show_all(own):
            return f"{window}: {expected!r} in Python, {own!r} beside others"
    return None


def show_all(values):
    return [show(value) for value in values]


def _routine(name):
    """Return a function of `math` as the C library has it, which never raises."""
    function = getattr(math, name)
    made = np.bool_ if name.startswith("is") else np.float64

    def routine(x):
        try:
            return made(function(float(x)))
        except OverflowError:
            return np.float64(math.inf)
        except ValueError:
            return np.float64(-math.inf if name == "log" and x == 0 else math.nan)

    return routine


_NAMES = ("sqrt", "sin", "cos", "tan", "atan", "exp", "log", "fabs")
_NAMES += ("floor", "ceil", "trunc", "isnan", "isinf")
_MATH = types.SimpleNamespace(**{name: _routine(name) for name in _NAMES})


def interpret(kernel):
    """Return the function of a kernel's text, run by Python on NumPy's scalars."""
    names = {"math": _MATH, "np": np, "float": np.float64, "int": np.int64}
    exec(kernel.source, names)

    def fire(*args):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return bool(names["kernel"](*args))

    return fire


def main(first, count):
    """Print every difference, and how many functions were compiled or refused."""
    found = Counter()
    for seed in range(first, first + count):
        try:
            case = make_case(seed)
        except RefusedError as refused:
            found[str(refused)[:60]] += 1
            continue
        except SyntaxError:
            found["not a function"] += 1
            continue
        except Exception as error:  # noqa: BLE001 - refused by whoever asks for kernels
            found[f"cannot be traced: {error!r}"[:80]] += 1
            continue
        found["compiled"] += 1
        found["with a loop"] += "j0" in case.kernel.source
        difference = find_difference(case, interpret(case.kernel))
        if difference is not None:
            found["WRONG"] += 1
            print(f"seed {seed}: {difference}\n{case.source[len(HEAD) :]}", flush=True)
    for reason, times in found.most_common(45):
        print(f"{times:7} {reason}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
