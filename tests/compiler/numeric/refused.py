"""Functions that must not be compiled, each with a part of the reason."""

# ruff: noqa: B905, SIM108 - written as users write it

import math
from typing import NamedTuple

import numpy as np

WEIGHTS = np.array([1.0, 2.0])
LARGE = (0, 1 << 60)
FAR = (1 << 63, (1 << 63) - 1, (1 << 63) - 2)
HUGE = 1 << 63
KEPT = [1.0]


class Pair(NamedTuple):
    """Two numbers."""

    a: float
    b: float


class Shifted(tuple):
    """A tuple that counts from one."""

    __slots__ = ()

    def __getitem__(self, index):
        return tuple.__getitem__(self, index - 1)


SHIFTED = Shifted((1.0, 2.0))


def unbounded(n: int) -> int:
    return n * n * n


def power(x: float) -> float:
    return x**2


def text(x: float) -> str:
    return f"{x}"


def either_type(x: float) -> float:
    return max(x, 0)


def mixed_least(x: float) -> float:
    return max(0, x)


def remainder(x: float) -> float:
    return x % 2.0


def array(x: float) -> float:
    return x * WEIGHTS[0]


def unknown_rounds(x: float) -> float:
    for _ in range(int(x)):
        x += 1.0
    return x


def while_it_lasts(x: float) -> float:
    while x > 1:
        x = x / 2
    return x


def kept_iterator(x: float) -> float:
    pairs = zip([x], [x])
    return sum(a + b for a, b in pairs) + sum(a for a, _ in pairs)


def kept_generator(x: float) -> float:
    made = (x * y for y in (1.0, 2.0))
    x = 5.0
    return sum(made)


def perhaps_unbound(x: float) -> float:
    if x > 0:
        power = x
    return power


def changed_on_the_way(x: float) -> float:
    made = [x, x]
    for n, y in enumerate(made):
        made[1 - n] = y + 1
    return made[1]


def grows(x: float) -> float:
    made = [x]
    for y in made:
        if len(made) < 3:
            made.append(y)
    return sum(made)


def conditional_append(x: float) -> float:
    made = [x]
    if x > 0:
        made.append(x)
    return sum(made)


def hypot(x: float) -> float:
    return math.hypot(x, 1.0)


def raises_always(x: float) -> float:
    return x / 0


def recursive(x: float) -> float:
    return recursive(x + 1)


def as_bool(x: float) -> float:
    return x or 1.0


def endless(x: float) -> float:
    while True:
        x += 1.0


def far(x: float) -> float:
    for _ in range(10**12):
        x += 1.0
    return x


def huge(x: float) -> float:
    n = 3
    for _ in range(60):
        n = n * n
    return x + n


def slow(x: float) -> float:
    return x * math.factorial(10**6)


def nested(x: float) -> float:
    for _ in range(1000):
        for _ in range(1000):
            pass
    return x


def by_float(x: float) -> float:
    return (0.5, 1.5)[x]


def by_guarded_float(x: float) -> float:
    return (0, 1)[x] + 0.0 if x > 2.0 else 0.0


def one_by_bool(x: float) -> float:
    return (1.5,)[x > 0.0]


def large_by_bool(x: float) -> int:
    return LARGE[x > 0.0] * 16


def mixed_by_bool(x: float) -> float:
    return (1, 2.5)[x > 0.0]


def beyond(n: int) -> int:
    return FAR[1 + n % 2] - FAR[2]


def by_huge(n: int) -> int:
    return n // HUGE


def own_index(x: float) -> float:
    return SHIFTED[int(x > 0)]


def chosen_list(x: float) -> float:
    one, two = [x], [0.0]
    three = one if x > 0 else two
    one[0] = 5.0
    return three[0]


def list_of_a_branch(x: float) -> float:
    one, two = [x], [0.0]
    if x > 0:
        three = one
    else:
        three = two
    one[0] = 5.0
    return three[0]


def list_of_a_call(x: float) -> float:
    one, two = [x], [0.0]
    three = pick(one, two, x)
    one[0] = 5.0
    return three[0]


def pick(one, two, x):
    if x > 0:
        return one
    return two


def rounds_to_come(x: float) -> float:
    rows, total = [[x], [x + 1]], 0.0
    for row in rows:
        for _ in range(9):
            if x > 0:
                rows[1][0] = 5.0
        total = total + row[0]
    return total


def greatest_list(x: float) -> float:
    made = max([KEPT])
    made.append(x)
    return made[-1]


def sum_from_a_list(x: float) -> float:
    made = sum((), KEPT)
    made.append(x)
    return made[-1]


def given_twice(x: float) -> float:
    return scale(x, x=1.0)


def scale(x, by=2.0):
    return x * by


def by_place_only(x: float) -> float:
    return first(x=x)


def first(x, /):
    return x


def append_by_name(x: float) -> float:
    made = [x]
    made.append(x, at=0)
    return made[1]


def replaced_by_place(x: float) -> float:
    return Pair(x, 1.0)._replace(3.0, a=2.0).a


def never_yields(x: float) -> float:
    return x
    yield from ()


def doubles(x: float) -> float:
    made = [x]
    for _ in range(60):
        made = made + made
    return made[0]


def one_name_twice(x: float) -> float:
    x, x = 1.0, x + 2.0  # noqa: PLW0128 - that is the point
    return x


class Counter:
    """Counts how often it is asked for anything."""

    asked = 0

    def __index__(self):
        Counter.asked += 1
        return 0

    def __bool__(self):
        Counter.asked += 1
        return True


COUNTER = Counter()


def element_at_an_object(x: float) -> float:
    return x + [1.0, 2.0][COUNTER]


def slice_up_to_an_object(x: float) -> float:
    return x + sum([1.0, 2.0][:COUNTER])


def true_object(x: float) -> float:
    return x if COUNTER else -x


REFUSED = {
    element_at_an_object: "takes a Counter as an index",
    slice_up_to_an_object: "takes a Counter as an index",
    true_object: "asks whether a Counter is true",
    one_name_twice: "assigns a name twice",
    by_float: "by a float, which raises TypeError",
    by_guarded_float: "by a float, which raises TypeError",
    one_by_bool: "out of range",
    large_by_bool: "64 bits",
    mixed_by_bool: "a float on one path and an int on another",
    beyond: "64 bits",
    by_huge: "64 bits",
    own_index: "takes a part of a Shifted",
    chosen_list: "another one on another path",
    list_of_a_branch: "another one on another path",
    list_of_a_call: "another one on another path",
    rounds_to_come: "lists of lists",
    greatest_list: "has not made itself",
    sum_from_a_list: "adds up a list",
    given_twice: "other arguments",
    by_place_only: "other arguments",
    append_by_name: "append with keywords",
    replaced_by_place: "_replace",
    never_yields: "generator",
    doubles: "Add on list and list",
    endless: "steps",
    far: "goes through more than",
    huge: "without bound",
    slow: "factorial",
    nested: "steps to trace",
    unbounded: "64 bits",
    power: "power",
    text: "JoinedStr",
    either_type: "an int on one path and a float on another",
    mixed_least: "a float on one path and an int on another",
    remainder: "Mod",
    array: "ndarray",
    unknown_rounds: "counts to a number that depends on the items",
    while_it_lasts: "repeats for as long as the items say",
    kept_iterator: "keeps an iterator",
    kept_generator: "keeps an iterator",
    perhaps_unbound: "power, which has no value on every path",
    changed_on_the_way: "has not made itself",
    grows: "has not made itself",
    conditional_append: "different lengths",
    hypot: "last bit",
    raises_always: "divides by zero",
    recursive: "calls itself",
    as_bool: "takes a number for true",
}
