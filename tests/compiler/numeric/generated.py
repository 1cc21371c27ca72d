"""Writes random functions that compute with numbers, as users and attackers might.

A function comes from a small grammar: each rule is a text with holes, `{f}` for a float,
`{i}` for an int, `{b}` for a bool, `{x}` for an index, `{d}` for a divisor, `{l}` for a
list of floats. Nothing promises that it is typed well, that its names have values or that
its indexes are in range: what it does is whatever Python does.
"""

import random
import re
from dataclasses import dataclass

HEAD = """\
import math
from typing import NamedTuple


class Point(NamedTuple):
    x: float
    n: int
    good: bool


class Pair(NamedTuple):
    a: float
    b: int


class Box(NamedTuple):
    scale: float
    held: list


FLOATS = (0.5, -1.25, 3.0, 1e10, -0.0)
ONE = (1.5,)
EVEN = (4, 7, 10, 13)
FROM_ZERO = (0, 1, 2, 3, 4)
UNEVEN = (1, 2, 4)
LARGE = (0, 1 << 60, 1 << 61)
BOOLS = (True, False, True)
MIXED = (1, 2.0, True)
PAIRS = ((0.5, 1), (1.5, 3), (2.5, 5))
ROWS = [[1.0, 2.0], [3.0, 4.0]]
LONG = tuple(math.sin(n) for n in range(20))
COUNTED = [*range(10, 35)]


def half(u):
    return u / 2


def scaled(u, by=3):
    if u < by:
        return u * by
    return u - by


def checked(u):
    if u > 100.0:
        raise ValueError(u)
    return u


def chosen(one, two, u):
    if u > 0:
        return one
    return two


def wrapped(one):
    return [one]
"""

LEAVES = {
    "f": [
        "0.0",
        "-0.0",
        "1.0",
        "0.1",
        "-2.5",
        "1e308",
        "math.inf",
        "math.nan",
        "1e-300",
        "255.0",
        "FLOATS[1]",
    ],
    "i": [
        "0",
        "1",
        "-1",
        "2",
        "3",
        "7",
        "-5",
        "100",
        "65536",
        "2147483647",
        "EVEN[2]",
        "4611686018427387904",
    ],
    "b": ["True", "False", "({f} > {f})", "({i} == {i})"],
    "l": ["FLOATS", "[{f}, {f}]", "[{f}, {f}, {f}]"],
    "x": ["0", "1", "-1", "True"],
    "d": ["2", "3", "7", "1000"],
}
RULES = {
    "f": [
        *["({f} + {f})", "({f} - {f})", "({f} * {f})", "({f} / {f})", "({i} / {i})"],
        *["({f} + {i})", "({f} * {i})", "({f} - {b})", "(-{f})", "abs({f})", "+{f}"],
        *["({f} if {b} else {f})", "min({f}, {f})", "max({f}, {f}, {f})"],
        *["math.sqrt({f})", "math.sin({f})", "math.exp({f})", "math.log({f})"],
        *["float({i})", "float({b})", "float({f})", "math.fabs({i})", "half({f})"],
        *["FLOATS[{x}]", "({f}, {f})[{x}]", "PAIRS[{x}][0]", "ROWS[{x}][{x}]"],
        *["{l}[{x}]", "max({l})", "ONE[0]", "scaled({f})", "scaled({f}, by={i})"],
        *["sum([{f}, {i}, {f}])", "sum(t * {f} for t in LONG)", "checked({f})"],
        *["[t * {f} for t in FLOATS][{x}]", "sum(t * {f} for t in {l})"],
        *["Pair({f}, {i}).a", "Pair(a={f}, b={i})[{x}]", "min({l})", "sum({l})"],
        *["Box({f}, {l}).held[{x}]", "Pair({f}, {i})._replace(a={f}).a"],
    ],
    "i": [
        *["({i} + {i})", "({i} - {i})", "({i} * {i})", "({i} // {d})", "({i} % {d})"],
        *["(-{i})", "(-{b})", "abs({i})", "min({i}, {i})", "max({i}, {i})", "+{i}"],
        *["({i} if {b} else {i})", "int({f})", "round({f})", "math.floor({f})"],
        *["math.ceil({f})", "int({b})", "({b} + {b})", "round({i})", "len({l})"],
        *["EVEN[{x}]", "FROM_ZERO[{x}]", "LARGE[{x}]", "PAIRS[{x}][1]", "UNEVEN[{x}]"],
        *["({i}, {i})[{x}]", "range(5, 50, 7)[{x}]", "sum([{b}, {i}])", "abs({b})"],
        *["({i} * {b})", "math.trunc({f})", "max(0, min({i}, 3))", "Pair({f}, {i}).b"],
        *["sum(t > {f} for t in {l})", "sum([t < {f} for t in {l}])"],
    ],
    "b": [
        *["({f} < {f})", "({f} >= {f})", "({i} < {i})", "({f} == {i})", "({b} < {b})"],
        *["({f} <= {i} < {f})", "({b} and {b})", "({b} or {b})", "(not {b})"],
        *["(not {f})", "(not {i})", "math.isnan({f})", "math.isfinite({f})"],
        *["bool({f})", "bool({i})", "all([{b}, {b}])", "any([{b}, {b}])"],
        *["({b} if {b} else {b})", "min({b}, {b})", "BOOLS[{x}]", "({f} != {f})"],
        *["({b}, {b})[{x}]", "({f} is not None)"],
    ],
    "l": [
        *["{l}", "[*{l}]", "chosen({l}, {l}, {f})", "({l} if {b} else {l})", "{l}[1:]"],
        *["{l}[::-1]", "list(reversed({l}))", "[t + u for t, u in zip({l}, {l})]"],
        *["([{f}] + [{f}, {f}])", "[t * {f} for t in {l}]"],
    ],
    "x": [
        *["{i}", "{b}", "({i} % 2)", "({i} % 3)", "int({b})", "(abs({i}) % 5)"],
        *["{b}", "({i} % 2)", "min(max({i}, 0), 2)", "({i} % 3 - 1)"],
    ],
    "d": ["2", "3", "7", "10", "1000"],
}
RARE = {
    "f": ["({f} ** 2)", "({f} % {f})", "({f} // 2.0)", "MIXED[{x}]", "ONE[{x}]"],
    "i": ["({i} ** 2)", "MIXED[{x}]", "({i} and {i})", "({i} // 0)", "round({f}, 1)"],
    "b": ["({f} and {b})", "({f} in FLOATS)", "({b} is True)"],
    "l": ["None", "ROWS[{x}]", "wrapped({l})[0]"],
    "x": ["{f}", "-{b}", "7", "1.0", "None"],
    "d": ["-3", "0", "True", "9223372036854775808", "{i}", "2.0"],
}
LOOPS = [
    *[("range(3)", "i"), ("range(12)", "i"), ("range(30)", "i"), ("COUNTED", "i")],
    *[("range(2, 60, 3)", "i"), ("FLOATS", "f"), ("LONG", "f"), ("{l}", "f")],
    *[("enumerate(LONG)", "if"), ("zip(LONG, COUNTED)", "fi"), ("PAIRS", "fi")],
    *[("reversed(LONG)", "f"), ("enumerate({l}, 1)", "if"), ("BOOLS", "b")],
]


@dataclass(frozen=True)
class Written:
    """A function `fn` in a module's text, and what it takes and gives."""

    source: str
    item: str  # float, int, bool or Point
    pop: int
    push: int
    peek: int
    single: bool
    gives_list: bool


class Writer:
    """Writes one function; the same one for the same seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.names: dict[str, list[str]] = {kind: [] for kind in "fibl"}
        self.own: set[str] = set()  # names that it may assign again
        self._made = 0

    def text(self, kind: str, depth: int) -> str:
        """Return an expression, now and then of another kind than asked for."""
        if kind in "fib" and self.chance.random() < 0.03:
            kind = self.chance.choice("fib")
        names = self.names.get(kind)
        if names and self.chance.random() < (0.25 if depth > 0 else 0.75):
            return self.chance.choice(names)
        if depth <= 0:
            rules = LEAVES[kind]
        else:
            rules = (RARE if self.chance.random() < 0.02 else RULES)[kind]
        return self.fill(self.chance.choice(rules), depth - 1)

    def fill(self, rule: str, depth: int) -> str:
        """Return a rule with all of its holes filled."""
        return re.sub(r"\{(\w)\}", lambda hole: self.text(hole[1], depth), rule)

    def statements(self, depth: int, *, in_loop: bool = False) -> list[str]:
        """Return some statements; the names that they assign may be used later on."""
        lines: list[str] = []
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            kinds = [self._assignment, self._assignment, self._assignment, self._list]
            if depth:
                kinds += [self._if, self._if, self._for, self._for, self._for]
                kinds += [self._while]
            lines += self.chance.choice(kinds)(depth, in_loop)
        return lines

    def block(self, depth: int, *, in_loop: bool) -> list[str]:
        """Return statements below a head; what they assign is mostly not used later."""
        before = {kind: names[:] for kind, names in self.names.items()}
        lines = self.statements(depth, in_loop=in_loop)
        if self.chance.random() < 0.7:
            self.names = before
        return [f"    {line}" for line in lines]

    def target(self, kind: str) -> str:
        """Return a name to assign to: a new one, or one that may have any kind."""
        old = [n for names in self.names.values() for n in names if n in self.own]
        if old and self.chance.random() < 0.5:
            same = [n for n in self.names[kind] if n in self.own]
            return self.chance.choice(
                same if same and self.chance.random() < 0.9 else old
            )
        self._made += 1
        self.own.add(f"v{self._made}")
        return f"v{self._made}"

    def assign(self, name: str, kind: str) -> None:
        """Note that a name has a kind from here on."""
        for names in self.names.values():
            if name in names:
                names.remove(name)
        self.names[kind].append(name)

    def _assignment(self, _: int, in_loop: bool) -> list[str]:
        chance = self.chance.random()
        if in_loop and chance < 0.04:
            word = self.chance.choice(("break", "continue"))
            return [self.fill(f"if {{b}}: {word}", 1)]
        if 0.1 < chance < 0.12:
            return [self.fill("assert {b} or {b}", 1)]
        kind = self.chance.choice("ffib")
        name = self.target(kind)
        value = self.text(kind, 2)
        if chance < 0.35 and name in self.names[kind]:
            return [f"{name} {self.chance.choice(('+=', '-=', '*='))} {value}"]
        if chance < 0.45:
            other = self.target("f")
            line = f"{name}, {other} = {value}, {self.text('f', 1)}"
            self.assign(name, kind)
            self.assign(other, "f")
            return [line]
        self.assign(name, kind)
        return [f"{name} = {value}"]

    def _list(self, _: int, __: bool) -> list[str]:
        own = [name for name in self.names["l"] if name in self.own]
        if not own or self.chance.random() < 0.3:
            name = self.target("l")
            rule = "[{f}, {f}]", "[t * {f} for t in FLOATS]", "{l}", "[{f}] * 3"
            line = f"{name} = {self.fill(self.chance.choice(rule), 1)}"
            self.assign(name, "l")
            return [line]
        name, other = self.chance.choice(own), self.chance.choice(own)
        rules = [
            *[f"{name}[0] = {{f}}", f"{name}[-1] += {{f}}", f"{name}.append({{f}})"],
            *[f"{other} = {name} if {{b}} else {{l}}", f"{name}[{{x}}] = {{f}}"],
            f"Box({{f}}, {name}).held[1] = {{f}}",
            f"{other} = chosen({name}, {other}, {{f}})",
            f"for row in ({name}, {other}): row[0] = {{f}}",
            f"if {{b}}: {other} = {name}",
        ]
        return [self.fill(self.chance.choice(rules), 1)]

    def _if(self, depth: int, in_loop: bool) -> list[str]:
        lines = [f"if {self.text('b', 2)}:"]
        if self.chance.random() < 0.15 and not in_loop:
            lines.append("    return RESULT")
            return lines
        if self.chance.random() < 0.1:
            return [*lines, "    raise ValueError"]
        lines += self.block(depth - 1, in_loop=in_loop)
        if self.chance.random() < 0.6:
            lines.append("else:")
            lines += self.block(depth - 1, in_loop=in_loop)
        return lines

    def _for(self, depth: int, _: bool) -> list[str]:
        over, kinds = self.chance.choice(LOOPS)
        over = self.fill(over, 0)
        names = [self.target(kind) for kind in kinds]
        for name, kind in zip(names, kinds, strict=True):
            self.assign(name, kind)
        head = f"for {', '.join(names)} in {over}:"
        return [head, *self.block(depth - 1, in_loop=True)]

    def _while(self, depth: int, _: bool) -> list[str]:
        self._made += 1
        name = f"n{self._made}"
        return [
            f"{name} = 0",
            f"while {name} < {self.chance.choice((2, 5))}:",
            f"    {name} += 1",
            *self.block(depth - 1, in_loop=True),
        ]


_FIELDS = {"float": {"f": ""}, "int": {"i": ""}, "bool": {"b": ""}}
_FIELDS["Point"] = {"f": ".x", "i": ".n", "b": ".good"}


def write_function(seed: int) -> Written:
    """Return the function of a seed: a map, a flat map or a block with look-ahead."""
    writer = Writer(seed)
    chance = writer.chance
    item = chance.choice(("float", "float", "float", "int", "bool", "Point"))
    fields = _FIELDS[item]
    pop = peek = push = 1
    single = chance.random() < 0.6
    if single:
        argument = item
        places = ["x"]
        writer.own.add("x")
    else:
        pop = chance.choice((1, 2, 3))
        peek = pop + chance.choice((0, 1, 4))
        argument = f"list[{item}]"
        places = [f"x[{place}]" for place in range(-1, peek)]
        if item == "float":
            writer.names["l"].append("x")
    for kind, field in fields.items():
        writer.names[kind] += [f"{place}{field}" for place in places]
    body = writer.statements(2)
    gives_list = not single or chance.random() < 0.2
    kind = chance.choice("ffib")
    if gives_list:
        push = chance.choice((1, 2, 3))
        form = f"[{', '.join([f'{{{kind}}}'] * push)}]"
    else:
        form = chance.choice((f"{{{kind}}}", f"{{{kind}}}", "Pair({f}, {i})"))
    body = [re.sub("RESULT", lambda _: writer.fill(form, 2), line) for line in body]
    if gives_list and chance.random() < 0.2:
        body += [f"yield {writer.text(kind, 2)}" for _ in range(push)]
    else:
        body.append(f"return {writer.fill(form, 2)}")
    lines = [HEAD, "", f"def fn(x: {argument}):", *(f"    {line}" for line in body), ""]
    return Written("\n".join(lines), item, pop, push, peek, single, gives_list)
