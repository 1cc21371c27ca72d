"""Writes functions at random, with state, windows, strings, None and errors."""

# ruff: noqa: C901, PLR0911, PLR0912, PLR0915

from __future__ import annotations

import math
import random
from typing import NamedTuple


class Item(NamedTuple):
    i: int
    j: int
    x: float
    y: float
    b: bool
    s: str


class Out(NamedTuple):
    n: int
    v: float
    w: str
    f: bool


class Pair(NamedTuple):
    p: float
    q: int

    @property
    def half(self):
        return self.p / 2

    def plus(self, n):
        return self.q + n


RATE = 0.1
LIMIT = 7
WORDS = ("a", "b1", "12")
WEIGHTS = {"a": 3, "b1": -4, "é": 1 << 62}
RATES = {1: 0.5, 2: 0.25, -7: 1e300}
STEPS = [4, 8, 15]
KNOWN = {"a", "12"}


def helper(a, b=3):
    if a > b:
        return a - b
    return b * 2


def scaled(x, n):
    total = 0.0
    for k in range(n % 4):
        total += x * k
    return total


HEAD = (
    "import math\nfrom tests.compiler.columns.written_functions import "
    "Item, Out, Pair, RATE, LIMIT, WORDS, WEIGHTS, RATES, STEPS, KNOWN, helper, "
    "scaled\n\n\n"
)
INTS = [0, 1, 2, 3, -1, -7, 10, 255, 1 << 31, (1 << 53) + 1, 1 << 62, (1 << 63) - 1]
FLOATS = [0.0, -0.0, 1.0, 0.1, -2.5, 3.75, 1e10, 1e16, 1e300, -1e308, 5e-324]
STRINGS = ["", "a", "b1", "12", "1.5", "é", "Ab", "x y"]


class Writer:
    """Writes one function; `names` are what an expression may read, by kind."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.names = {}
        self.count = 0

    def pick(self, *options):
        return self.rng.choice(options)

    def leaf(self, kind):
        rng = self.rng
        named = self.names.get(kind, [])
        if named and rng.random() < 0.75:
            return rng.choice(named)
        match kind:
            case "int":
                return self.pick(str(rng.randrange(-5, 20)), "LIMIT", str(1 << 40))
            case "float":
                return self.pick(
                    repr(round(rng.uniform(-9, 9), 2)), "RATE", "1e200", "-0.0"
                )
            case "bool":
                return self.pick("True", "False")
        return repr(rng.choice(STRINGS))

    def write(self, kind, depth):
        if depth <= 0 or self.rng.random() < 0.15:
            return self.leaf(kind)
        return getattr(self, f"write_{kind}")(depth - 1)

    def write_int(self, d):
        a, b = self.write("int", d), self.write("int", d)
        match self.rng.randrange(21):
            case 16:
                return f"({a} {self.pick('<<', '>>')} {self.pick('2', '5', f'({b} % 70)', '-1')})"
            case 17:
                return f"({a} ** {self.pick('2', '3', f'({b} % 40)', '-1')})"
            case 18:
                s = self.write("str", d)
                return self.pick(f"WEIGHTS[{s}]", f"WEIGHTS.get({s}, 2)")
            case 19:
                return f"STEPS[{self.pick(a, f'{a} % 3')}]"
            case 20:
                return f"divmod({a}, {b})[{self.pick(0, 1)}]"
            case 0 | 1 | 2 | 3 | 4 | 5:
                return f"({a} {self.pick('+', '-', '*', '+', '-', '//', '%')} {b})"
            case 6:
                return f"({a} {self.pick('&', '|', '^')} {b})"
            case 7:
                return self.pick(f"(-{a})", f"abs({a})", f"(~{a})", f"({a} >> 2)")
            case 8:
                return f"{self.pick('min', 'max')}({a}, {b})"
            case 9:
                of = self.write("float", d)
                return f"{self.pick('int', 'round', 'math.floor', 'math.ceil')}({of})"
            case 10:
                return f"len({self.write('str', d)})"
            case 11:
                return f"({a} if {self.write('bool', d)} else {b})"
            case 12:
                return f"helper({a}{self.pick('', f', {b}')})"
            case 13:
                return f"int({self.write('bool', d)})"
            case 14:
                return f"({a} or {b})"
        return f"int({self.write('str', d)})"

    def write_float(self, d):
        a, b = self.write("float", d), self.write("float", d)
        i = self.write("int", d)
        match self.rng.randrange(19):
            case 14:
                return f"({a} ** {self.pick('2', '0.5', '-1', '3.0', b, i)})"
            case 15 | 16:
                return f"round({a}, {self.pick(0, 1, 2, 2, 3, 6)})"
            case 17:
                return f"RATES[{i}]"
            case 18:
                return self.pick(
                    f"math.pow({a}, {self.pick('2', b)})",
                    f"math.copysign({a}, {b})",
                    f"math.fmod({a}, {b})",
                    f"math.atan2({a}, {b})",
                    f"math.{self.pick('tanh', 'sinh', 'log10', 'asin', 'expm1')}({a})",
                )
            case 0 | 1 | 2 | 3:
                return f"({a} {self.pick('+', '-', '*', '/')} {b})"
            case 4:
                return f"({a} {self.pick('//', '%')} {self.pick(b, i)})"
            case 5:
                return f"({self.pick(a, i)} / {i})"
            case 6:
                return f"({a} {self.pick('+', '-', '*')} {i})"
            case 7:
                return self.pick(f"(-{a})", f"abs({a})", f"float({i})")
            case 8:
                return f"{self.pick('min', 'max')}({a}, {b})"
            case 9:
                return f"math.{self.pick('sqrt', 'sin', 'atan', 'exp', 'log')}({a})"
            case 10:
                return f"({a} if {self.write('bool', d)} else {b})"
            case 11:
                return f"scaled({a}, {i})"
            case 12:
                return f"({a} and {b})"
        return f"float({self.write('str', d)})"

    def write_bool(self, d):
        op = self.pick("<", "<=", ">", ">=", "==", "!=")
        match self.rng.randrange(13):
            case 11:
                return f"({self.write('str', d)} in {self.pick('KNOWN', 'WEIGHTS')})"
            case 12:
                return f"({self.write('int', d)} {self.pick('in', 'not in')} STEPS)"
            case 0 | 1:
                return f"({self.write('int', d)} {op} {self.write('int', d)})"
            case 2 | 3:
                other = self.write(self.pick("int", "float"), d)
                return f"({self.write('float', d)} {op} {other})"
            case 4:
                return f"({self.write('str', d)} {self.pick('==', '!=')} {self.write('str', d)})"
            case 5:
                return f"({self.write('str', d)} in {self.pick('WORDS', repr(('a', 'é')))})"
            case 6:
                return f"({self.write('bool', d)} {self.pick('and', 'or')} {self.write('bool', d)})"
            case 7:
                return f"(not {self.write(self.pick('bool', 'int', 'str'), d)})"
            case 8:
                return f"({self.leaf('int')} < {self.write('int', d)} <= {self.leaf('int')})"
            case 9:
                return (
                    f"{self.write('str', d)}.{self.pick('startswith', 'endswith')}('a')"
                )
        return f"({self.write('int', d)} in (1, 2, 3))"

    def write_str(self, d):
        s = self.write("str", d)
        match self.rng.randrange(8):
            case 7:
                return f"f'<{{{s}}}>'" if "'" not in s and '"' not in s else s
            case 0:
                return f"{s}.{self.pick('upper', 'lower', 'strip', 'title')}()"
            case 1:
                return f"({s} + 'z')"
            case 2:
                return f"{s}[{self.pick('0', '-1', '1:', ':2')}]"
            case 3:
                return f"({s} if {self.write('bool', d)} else {self.write('str', d)})"
        return self.leaf("str")

    def new(self, kind):
        self.count += 1
        name = f"v{self.count}"
        return name, lambda: self.names.setdefault(kind, []).append(name)

    def statements(self, depth, indent, kept=()):
        """Return some lines; names that are bound for sure may be read later."""
        lines = []
        for _ in range(self.rng.randrange(1, 4)):
            kind = self.pick("int", "float", "bool", "str", "int", "float")
            choice = self.rng.randrange(9) if depth else 0
            own = [n for n in self.names.get(kind, []) if n.startswith("v")]
            if choice <= 2 or not own:
                name, bind = self.new(kind)
                lines.append(f"{indent}{name} = {self.write(kind, 2)}")
                bind()
            elif choice == 3:
                name = self.rng.choice(own)
                lines.append(f"{indent}if {self.write('bool', 1)}:")
                lines.append(f"{indent}    {name} = {self.write(kind, 2)}")
                if self.rng.random() < 0.5:
                    lines.append(f"{indent}elif {self.write('bool', 1)}:")
                    lines.append(f"{indent}    {name} = {self.write(kind, 1)}")
            elif choice == 4 and kind in ("int", "float"):
                total = self.rng.choice(own)
                name, bind = self.new("int")
                bound = self.pick("3", f"{self.leaf('int')} % 5", "1, 6, 2")
                lines.append(f"{indent}for {name} in range({bound}):")
                if self.rng.random() < 0.4:
                    lines.append(f"{indent}    if {name} == {self.rng.randrange(4)}:")
                    lines.append(f"{indent}        {self.pick('break', 'continue')}")
                self.names.setdefault("int", []).append(name)
                lines.append(
                    f"{indent}    {total} {self.pick('+', '-', '*')}= {self.write(kind, 1)}"
                )
                self.names["int"].remove(name)
            elif choice == 5:
                name = f"w{self.count}"
                self.count += 1
                lines.append(f"{indent}{name} = 0")
                lines.append(f"{indent}while {name} < 4 and {self.write('bool', 1)}:")
                lines.append(f"{indent}    {name} += 1")
                target = self.rng.choice(own)
                lines.append(f"{indent}    {target} = {self.write(kind, 1)}")
            elif choice >= 7:
                name, bind = self.new("float")
                error = self.pick("ZeroDivisionError", "Exception", "ValueError")
                lines.append(f"{indent}try:")
                if self.rng.random() < 0.5:
                    lines.append(f"{indent}    if {self.write('bool', 1)}:")
                    lines.append(f"{indent}        {name} = {self.write('float', 2)}")
                    lines.append(f"{indent}    else:")
                    value = f"{self.leaf('float')} / {self.leaf('int')}"
                    lines.append(f"{indent}        {name} = {value}")
                else:
                    value = f"{self.write('float', 1)} / {self.write('int', 1)}"
                    lines.append(f"{indent}    {name} = {value}")
                    value = f"{name} // ({self.write('int', 1)} % 3)"
                    lines.append(f"{indent}    {name} = {value}")
                lines.append(f"{indent}except {error}:")
                lines.append(f"{indent}    {name} = {self.write('float', 1)}")
                bind()
            else:
                name, bind = self.new("float")
                lines.append(f"{indent}{name} = 0")
                lines.append(f"{indent}for k in range({self.leaf('int')} % 3):")
                lines.append(f"{indent}    {name} += {self.write('float', 1)}")
                lines.append(f"{indent}{name} = {name} / 2")
                bind()
        return lines

    def out(self):
        args = [self.write(k, 2) for k in ("int", "float", "str", "bool")]
        return f"Out({', '.join(args)})"

    def read_item(self, item="t"):
        self.names = {
            "int": [f"{item}.i", f"{item}.j"],
            "float": [f"{item}.x", f"{item}.y"],
            "bool": [f"{item}.b"],
            "str": [f"{item}.s"],
        }

    def write_map(self, name):
        self.read_item()
        lines = [f"def {name}(t):", *self.statements(1, "    ")]
        if self.rng.random() < 0.3:
            lines += [
                f"    if {self.write('bool', 1)}:",
                f"        return {self.out()}",
            ]
        last = self.out()
        return "\n".join([*lines, f"    return {last}"])

    def write_replace(self, name):
        self.read_item()
        kind, field = self.pick(
            ("int", "i"), ("float", "x"), ("str", "s"), ("bool", "b")
        )
        body = self.statements(1, "    ")
        made = f"t._replace({field}={self.write(kind, 3)})"
        return "\n".join([f"def {name}(t):", *body, f"    return {made}"])

    def write_filter(self, name):
        self.read_item()
        body = self.statements(1, "    ")
        test = self.write(self.pick("bool", "bool", "int", "float", "str"), 3)
        return "\n".join([f"def {name}(t):", *body, f"    return {test}"])

    def write_scan(self, name):
        """Return the text of a step, and its initial state."""
        self.read_item()
        which = self.rng.randrange(6)
        lines = [f"def {name}(state, t):"]
        if which == 0:
            initial = self.pick("0", "1.5", "0")
            kind = "int" if initial == "0" else "float"
            self.names[kind].append("state")
            lines += self.statements(1, "    ")
            new = self.write(kind, 2)
        elif which == 1:
            initial = self.pick("(0.0, 0)", "(0, 0)")
            lines.append("    total, count = state")
            self.names["int"].append("count")
            self.names["float" if initial == "(0.0, 0)" else "str"].append(
                "total" if initial == "(0.0, 0)" else "t.s"
            )
            lines += self.statements(1, "    ")
            new = f"(total + {self.write('float', 1)}, {self.write('int', 1)})"
        elif which == 2:
            initial = "None"
            lines += ["    before = t.x if state is None else state"]
            self.names["float"].append("before")
            lines += self.statements(1, "    ")
            new = self.write("float", 1)
        elif which == 3:
            initial = "Pair(0.0, 1)"
            self.names["float"] += ["state.p", "state.half"]
            self.names["int"] += ["state.q", "state.plus(2)"]
            lines += self.statements(1, "    ")
            new = f"state._replace(q={self.write('int', 1)})"
            if self.rng.random() < 0.5:
                new = f"Pair({self.write('float', 1)}, {self.write('int', 1)})"
        elif which == 4:
            initial = "('', 0)"
            self.names["str"].append("state[0]")
            self.names["int"].append("state[1]")
            lines += self.statements(1, "    ")
            new = f"({self.write('str', 1)}, {self.write('int', 1)})"
        else:
            initial = "(None, 0)"
            lines += [
                "    last, n = state",
                "    if last is not None and last > t.i:",
                "        n += 1",
                "    last = t.i",
            ]
            self.names["int"] += ["n"]
            new = f"({self.pick('last', 'last', 'None if n > 2 else last')}, n)"
        lines.append(f"    return {new}, {self.out()}")
        return "\n".join(lines), initial

    def write_window(self, name):
        lines = [f"def {name}(items):", "    last = items[-1]", "    first = items[0]"]
        self.names = {
            "int": [
                "last.i",
                "first.j",
                "len(items)",
                "sum(t.j for t in items)",
                "max(t.i for t in items)",
            ],
            "float": [
                "last.x",
                "first.y",
                "sum(t.x for t in items)",
                "sum(t.x * t.j for t in items if t.b)",
                "min(t.y for t in items)",
            ],
            "bool": ["last.b"],
            "str": ["last.s", "first.s"],
        }
        lines += ["    total = 0", "    for t in items:"]
        lines += [f"        total += {self.pick('t.x', 't.y * 2', 't.x / t.j')}"]
        self.names["float"].append("total")
        lines += self.statements(1, "    ")
        lines.append(f"    return {self.out()}")
        return "\n".join(lines)


def make_items(rng, count, rough):
    """Return items; the rougher, the more of their values are extreme."""

    def some(values, plain):
        return rng.choice(values) if rng.random() < rough else plain()

    floats = [*FLOATS, math.nan, math.inf, -math.inf]
    return [
        Item(
            some(INTS, lambda: rng.randrange(-9, 30)),
            some(INTS, lambda: rng.randrange(1, 9)),
            some(floats, lambda: round(rng.uniform(-9, 9), 3)),
            some(floats, lambda: round(rng.uniform(1, 9), 3)),
            rng.random() < 0.5,
            rng.choice(STRINGS),
        )
        for _ in range(count)
    ]
