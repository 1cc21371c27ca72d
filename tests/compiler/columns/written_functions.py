"""Writes functions at random, with state, windows, strings, None and errors."""

# ruff: noqa: C901, DTZ001, DTZ901, PLR0911, PLR0912, PLR0915

from __future__ import annotations

import datetime as dt
import math
import random
from enum import Enum
from typing import NamedTuple


class Item(NamedTuple):
    i: int
    j: int
    x: float
    y: float
    b: bool
    s: str
    ts: int  # both rise, for windows
    tf: float


class Out(NamedTuple):
    n: int
    v: float
    w: str
    f: bool


class Color(Enum):
    RED = 1
    GREEN = 20
    BLUE = -3


class Pair(NamedTuple):
    p: float
    q: int

    @property
    def half(self):
        return self.p / 2

    def plus(self, n):
        return self.q + n


class Rich(NamedTuple):
    i: int
    j: int
    x: float
    y: float
    b: bool
    s: str
    ts: int
    tf: float
    o: int | None
    p: float | None
    z: str | None
    m: dt.datetime
    k: dt.date
    g: dt.timedelta
    e: Color
    r: bytes
    q: Pair


class RichOut(NamedTuple):
    n: int
    v: float
    w: str
    f: bool
    o: int | None
    m: dt.datetime
    k: dt.date
    g: dt.timedelta | None
    e: Color
    r: bytes
    q: Pair


RATE = 0.1
LIMIT = 7
WORDS = ("a", "b1", "12")
WEIGHTS = {"a": 3, "b1": -4, "é": 1 << 62}
RATES = {1: 0.5, 2: 0.25, -7: 1e300}
STEPS = [4, 8, 15]
KNOWN = {"a", "12"}


COLORS = {"a": Color.RED, "b1": Color.BLUE, "é": Color.RED}
COLOR_LIST = (Color.GREEN, Color.RED)
ZEROS, MINUS = {"a": 0.0, "é": -0.0}, {"a": -0.0, "é": 0.0}
FLAGS, ONES, FLOATS_OF = {"a": True}, {"a": 1}, {"a": 1.0}
PAIRS = {"a": (1, -2), "b1": (1 << 62, 0), "": (0, 9)}
PAIR_LIST = [(1, Pair(0.5, 1)), (-7, Pair(-0.0, 2)), (1 << 40, Pair(1e300, 3))]
DAYS = {"a": dt.date(2024, 2, 29), "12": dt.date(1, 1, 1)}


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
    "import datetime as dt\nimport math\nfrom itertools import pairwise\n"
    "from tests.compiler.columns.written_functions import "
    "Color, Item, Out, Pair, RichOut, RATE, LIMIT, WORDS, WEIGHTS, RATES, STEPS, "
    "KNOWN, COLORS, COLOR_LIST, ZEROS, MINUS, FLAGS, ONES, FLOATS_OF, DAYS, "
    "PAIRS, PAIR_LIST, "
    "helper, scaled\n\n\n"
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
        match self.rng.randrange(22):
            case 21:
                return self.pick(
                    f"math.gcd({a}, {b})", f"WEIGHTS.get({self.write('str', d)}, {a})"
                )
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
        match self.rng.randrange(20):
            case 19:
                return self.pick(f"RATES.get({i}, {a})", f"math.log({a}, {b})")
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
        match self.rng.randrange(15):
            case 13:
                item = self.write("int", d)
                return self.pick(
                    f"({item} in {{1, 7, LIMIT}})",
                    f"({item} in range(-3, 12, {self.pick(1, 2, 3)}))",
                    f"({item} not in range(9, -9, -4))",
                    f"({self.write('str', d)} in {{'a', 'é'}})",
                    f"({self.write('float', d)} in (0.1, 2, -0.0))",
                )
            case 14:
                parts = [self.pick("int", "str", "float") for _ in range(2)]
                one, two = (", ".join(self.write(p, d) for p in parts) for _ in "12")
                return f"(({one}) {op} ({two}))"
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
            choice = self.rng.randrange(11) if depth else 0
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
            elif choice == 9:
                target, one = self.rng.choice(own), f"w{self.count}"
                self.count += 1
                parts = ", ".join(self.write(kind, 1) for _ in range(3))
                lines.append(f"{indent}for {one} in ({parts}):")
                lines.append(f"{indent}    if {self.write('bool', 1)}:")
                lines.append(f"{indent}        {self.pick('break', 'continue')}")
                lines.append(f"{indent}    {target} = {one}")
                if self.rng.random() < 0.6:
                    lines.append(f"{indent}else:")
                    lines.append(f"{indent}    {target} = {self.write(kind, 1)}")
            elif choice == 10:
                lines.append(f"{indent}if {self.leaf('int')} == {self.leaf('int')}:")
                text = f"f'{{{self.leaf('int')}}}', {self.leaf('str')}"
                lines.append(
                    f"{indent}    raise {self.pick('ValueError', 'KeyError')}({text})"
                )
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

    def write_flat_map(self, name):
        """Return a function with any number of outputs: a generator, or of lists."""
        self.read_item()
        lines = [f"def {name}(t):", *self.statements(1, "    ")]
        if self.rng.random() < 0.5:
            lines.append(f"    yield {self.out()}")
            lines += [f"    if {self.write('bool', 1)}:", f"        yield {self.out()}"]
            lines += ["    else:", f"        {self.pick('return', 'pass')}"]
            lines.append(f"    for n in range({self.leaf('int')} % 4):")
            self.names["int"].append("n")
            lines.append(f"        yield {self.out()}")
        else:
            lines += [
                f"    if {self.write('bool', 1)}:",
                f"        return [{self.out()}]",
            ]
            one, two = self.out(), self.out()
            lines.append("    made = []")
            lines.append(f"    made.append({one})")
            lines.append(
                f"    return made if {self.write('bool', 1)} else [{two}, {one}]"
            )
        return "\n".join(lines)

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

    def write_split(self, name):
        """Return a function that names one of three streams, or several of them."""
        self.read_item()
        body = self.statements(1, "    ")
        port = self.pick(
            f"{self.write('int', 2)} % 3",
            self.write("bool", 2),
            f"min(abs({self.leaf('int')}), 2)",
            f"{self.leaf('int')} % 4",
            f"(0, {self.leaf('int')} % 3) if {self.write('bool', 1)} else (1,)",
            f"() if {self.write('bool', 1)} else [2, 0]",
        )
        return "\n".join([f"def {name}(t):", *body, f"    return {port}"])

    def write_spread(self, name):
        """Return a function from an item to several of its type."""
        self.read_item()
        other = f"t._replace(i={self.write('int', 2)})"
        some = self.pick(f"[{other}]", "[t]", f"[t, {other}]", "[]")
        test = self.write("bool", 1)
        return f"def {name}(t):\n    return [t, {other}] if {test} else {some}"

    def write_python(self, name):
        """Return a function that is not compiled."""
        self.read_item()
        made = f"math.hypot({self.write('float', 1)}, 0.5)"
        return f"def {name}(t):\n    return t._replace(y={made})"

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
        self.name_window()
        lines += ["    total = 0", "    for t in items:"]
        lines += [f"        total += {self.pick('t.x', 't.y * 2', 't.x / t.j')}"]
        self.names["float"].append("total")
        lines += self.statements(1, "    ")
        lines.append(f"    return {self.out()}")
        return "\n".join(lines)

    def name_window(self):
        """Name what can be read of a window."""
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


class RichWriter(Writer):
    """Writes functions of items with values that may be None, times, and more."""

    def read_item(self, item="t"):
        super().read_item(item)
        self.names["int"].append(f"{item}.q.q")
        self.names["float"].append(f"{item}.q.half")
        self.names |= {
            "maybe_int": [f"{item}.o"],
            "maybe_float": [f"{item}.p"],
            "maybe_str": [f"{item}.z"],
            "datetime": [f"{item}.m"],
            "date": [f"{item}.k"],
            "span": [f"{item}.g"],
            "color": [f"{item}.e"],
            "bytes": [f"{item}.r"],
            "pair": [f"{item}.q"],
        }

    def leaf(self, kind):
        named = self.names.get(kind, [])
        if kind in ("int", "float", "bool", "str"):
            return super().leaf(kind)
        if named and self.rng.random() < 0.8:
            return self.rng.choice(named)
        number = self.rng.randrange(1, 28)
        match kind:
            case "datetime":
                return (
                    f"dt.datetime(2024, {number % 12 + 1}, {number}, {number % 24}, 5)"
                )
            case "date":
                return f"dt.date(2023, {number % 12 + 1}, {number})"
            case "span":
                text = self.pick("days=-1, seconds=7", "hours=5", "microseconds=1", "0")
                return f"dt.timedelta({text})"
            case "color":
                return self.pick("Color.RED", "Color.GREEN", "Color.BLUE")
            case "bytes":
                return self.pick("b''", "b'a'", "b'xyz'")
            case "pair":
                return f"Pair({self.leaf('float')}, {self.leaf('int')})"
        return self.pick("None", self.leaf(kind.removeprefix("maybe_")))

    def choose(self, kind, d):
        """Return an expression of one kind for two others."""
        one, two = self.write(kind, d), self.write(kind, d)
        return f"({one} if {self.write('bool', d)} else {two})"

    def write_int(self, d):
        maybe, span = self.leaf("maybe_int"), self.write("span", d)
        match self.rng.randrange(24):
            case 0:
                return f"({maybe} or {self.leaf('int')})"
            case 1:
                return f"({self.leaf('int')} if {maybe} is None else {maybe})"
            case 2:
                return self.pick(maybe, f"({maybe} + 1)")
            case 3:
                parts = ("year", "month", "day", "hour", "minute", "second")
                return f"{self.write('datetime', d)}.{self.pick(*parts, 'microsecond')}"
            case 4:
                return f"{self.write('date', d)}.{self.pick('year', 'month', 'day')}"
            case 5:
                call = self.pick("weekday", "isoweekday", "toordinal")
                return f"{self.write(self.pick('date', 'datetime'), d)}.{call}()"
            case 6:
                return f"{span}.{self.pick('days', 'seconds', 'microseconds')}"
            case 7:
                return f"({span} // {self.write('span', d)})"
            case 8:
                return f"{self.write('color', d)}.value"
            case 9:
                text = self.write("bytes", d)
                return self.pick(f"len({text})", f"{text}[0]", f"{text}.find(b'a')")
            case 10:
                return f"{self.write('pair', d)}.{self.pick('q', 'plus(3)')}"
        return super().write_int(d)

    def write_float(self, d):
        maybe, span = self.leaf("maybe_float"), self.write("span", d)
        match self.rng.randrange(16):
            case 0:
                return f"({maybe} or {self.leaf('float')})"
            case 1:
                return f"(0.5 if {maybe} is None else {maybe} * 2)"
            case 2:
                return f"{span}.total_seconds()"
            case 3:
                return f"({span} / {self.write('span', d)})"
            case 4:
                return f"{self.write('pair', d)}.{self.pick('p', 'half')}"
        return super().write_float(d)

    def write_bool(self, d):
        op = self.pick("<", "<=", ">", ">=", "==", "!=")
        same = self.pick("==", "!=")
        match self.rng.randrange(20):
            case 0 | 1:
                kind = self.pick("datetime", "date", "span", "str", "bytes")
                return f"({self.write(kind, d)} {op} {self.write(kind, d)})"
            case 2:
                is_same = self.pick("==", "!=", "is", "is not")
                return f"({self.write('color', d)} {is_same} {self.write('color', d)})"
            case 3:
                return f"({self.leaf('maybe_int')} {same} {self.leaf('int')})"
            case 4:
                return f"({self.leaf('maybe_str')} {same} {self.leaf('maybe_str')})"
            case 5:
                kind = self.pick("maybe_int", "maybe_float", "maybe_str")
                return f"({self.leaf(kind)} is {self.pick('', 'not ')}None)"
            case 6:
                return f"({self.leaf('maybe_str')} in {self.pick('WORDS', 'KNOWN')})"
            case 7:
                return f"bool({self.write(self.pick('span', 'bytes'), d)})"
            case 8:
                return f"({self.write('color', d)} in (Color.RED, Color.BLUE))"
            case 9:
                kinds = ("maybe_int", "maybe_str", "datetime", "int")
                asked = self.pick("int", "str", "float", "dt.date")
                return f"isinstance({self.leaf(self.pick(*kinds))}, {asked})"
        return super().write_bool(d)

    def write_str(self, d):
        maybe = self.leaf("maybe_str")
        match self.rng.randrange(12):
            case 0:
                return f"({maybe} or {self.leaf('str')})"
            case 1:
                return f"('none' if {maybe} is None else {maybe}.upper())"
            case 2:
                return f"{self.write('color', d)}.name"
            case 3:
                a, b = self.write("str", d), self.write("str", d)
                return f"{self.pick('min', 'max')}({a}, {b})"
            case 4:
                return f"{self.leaf('bytes')}.{self.pick('hex', 'decode')}()"
        return super().write_str(d)

    def write_maybe_int(self, d):
        return f"({self.write('int', d)} if {self.write('bool', d)} else None)"

    def write_maybe_span(self, d):
        return f"({self.write('span', d)} if {self.write('bool', d)} else None)"

    def write_datetime(self, d):
        time = self.write("datetime", d)
        match self.rng.randrange(5):
            case 0 | 1:
                return f"({time} {self.pick('+', '-')} {self.write('span', d)})"
            case 2:
                part = self.pick("hour", "minute", "second", "microsecond")
                return f"{time}.replace({part}={self.leaf('int')})"
            case 3:
                return self.choose("datetime", d)
        return f"{self.pick('min', 'max')}({time}, {self.write('datetime', d)})"

    def write_date(self, d):
        match self.rng.randrange(3):
            case 0:
                return f"{self.write('datetime', d)}.date()"
            case 1:
                op = self.pick("+", "-")
                return f"({self.write('date', d)} {op} {self.write('span', d)})"
        return self.choose("date", d)

    def write_span(self, d):
        a, b, n = self.write("span", d), self.write("span", d), self.write("int", d)
        match self.rng.randrange(10):
            case 0 | 1:
                kind = self.pick("datetime", "date")
                return f"({self.write(kind, d)} - {self.write(kind, d)})"
            case 2:
                return f"({a} {self.pick('+', '-')} {b})"
            case 3:
                return self.pick(f"({a} * {n})", f"({n} * {a})")
            case 4:
                return f"({a} // {n})"
            case 5:
                return self.pick(f"(-{a})", f"abs({a})")
            case 6:
                unit = self.pick("days", "seconds", "milliseconds", "weeks")
                return f"dt.timedelta({unit}={n})"
            case 7:
                return f"({a} % {b})"
            case 8:
                return f"divmod({a}, {b})[1]"
        return self.choose("span", d)

    def write_color(self, d):
        return self.choose("color", d)

    def write_bytes(self, d):
        text = self.write("bytes", d)
        match self.rng.randrange(4):
            case 0:
                return f"({text} + b'z')"
            case 1:
                return f"{text}{self.pick('[:2]', '.upper()', '[::-1]')}"
            case 2:
                return f"{self.write('str', d)}.encode()"
        return self.choose("bytes", d)

    def write_pair(self, d):
        pair = self.leaf("pair")
        if self.rng.random() < 0.5:
            return f"{pair}._replace(q={self.write('int', d)})"
        return f"Pair({self.write('float', d)}, {self.write('int', d)})"

    def out(self):
        kinds = ("int", "float", "str", "bool", "maybe_int", "datetime", "date")
        kinds += ("maybe_span", "color", "bytes", "pair")
        return f"RichOut({', '.join(self.write(kind, 1) for kind in kinds)})"

    def write_window(self, name):
        text = super().write_window(name)
        return text.replace("    total = 0", "    t = last\n    total = 0")

    def name_window(self):
        super().name_window()
        for kind in ("datetime", "date", "span", "color", "bytes", "pair"):
            attribute = {"datetime": "m", "date": "k", "span": "g", "color": "e"}
            own = attribute.get(kind, {"bytes": "r", "pair": "q"}.get(kind))
            self.names[kind] = [f"last.{own}", f"first.{own}"]
        self.names["maybe_int"] = ["last.o"]
        self.names["maybe_str"] = ["first.z"]
        self.names["datetime"].append("max(t.m for t in items)")


class Wider:
    """Writes more of what is accepted, before the class of a writer."""

    share = 0.35

    def narrow(self):
        return self.rng.random() >= self.share

    def write_int(self, d):
        if self.narrow():
            return super().write_int(d)
        a, b, f = self.write("int", d), self.write("int", d), self.write("float", d)
        s, t = self.write("str", d), self.write("bool", d)
        return self.pick(
            f"({t} {self.pick('+', '-', '*', '//', '%', '<<', '**')} ({a} % 9))",
            f"({a} {self.pick('+', '*', '|', '&', '^')} {t})",
            f"round({a}, {self.pick(0, 1, 'None')})",
            f"math.{self.pick('trunc', 'floor')}({self.pick(f, a)})",
            f"COLORS.get({s}, Color.GREEN).value",
            f"COLOR_LIST[{a} % 3].value",
            f"({a} if {t} else {t})",
            f"sum(({a}, {b}, 3))",
            f"sum([{t}, {t}])",
            f"{self.pick('max', 'min')}({a}, {b}, 7)",
            f"{self.pick('max', 'min')}([{a}, {b}])",
            f"len([{a}, {f}, {s}])",
            f"[{a}, {b}][{self.pick(0, -1, 2)}]",
            f"(4, 7, -9)[{a}]",
            f"helper(b={a}, a={b})",
            f"{s}.{self.pick('find', 'count', 'index', 'rfind')}({self.pick(repr('a'), repr(''), 3)})",
            f"int({f} // {b})",
            f"({self.pick(f, s, t)} and {a})",
            f"(lambda q: q * 2 + {a})({b})",
            f"sum(k * {self.leaf('int')} for k in (1, 2, {b}))",
            f"sum(k for k in range({a} % 5) if k != 2)",
            f"max(k % 3 for k in ({a}, {b}))",
            f"(-{t})",
            f"divmod({a}, {b})[{t}]",
            f"ONES.get({s}, {self.pick(1, 'True', a)})",
            f"len({s}.{self.pick('split()', 'split(None, 1)', 'splitlines()')})",
            f"PAIRS[{s}][{self.pick(0, 1)}]",
            f"PAIR_LIST[{a} % 3][0]",
            f"{{1: 5, 2: 7, -1: 1 << 50}}.get({a}, {b})",
            f"{self.pick('max', 'min')}({a}, {f})",
            f"{t}.__int__()" if self.rng.random() < 0.05 else f"int({t})",
        )

    def write_float(self, d):
        if self.narrow():
            return super().write_float(d)
        a, f, g = self.write("int", d), self.write("float", d), self.write("float", d)
        s, t = self.write("str", d), self.write("bool", d)
        return self.pick(
            f"{self.pick('ZEROS', 'MINUS', 'FLOATS_OF')}.get({s}, {self.pick(f, '1.0', '-0.0')})",
            f"{self.pick('ZEROS', 'MINUS')}[{s}]",
            f"sum(({f}, {g}))",
            f"sum([{f}, {g}, {f}])",
            f"{self.pick('max', 'min')}({f}, {g}, 0.0)",
            f"({f} if {t} else {self.pick(a, t)})",
            f"({f} {self.pick('*', '+', '-', '/', '//', '%', '**')} {t})",
            f"({t} {self.pick('*', '/', '-', '%')} {f})",
            f"({a} ** {f})",
            f"math.{self.pick('degrees', 'radians', 'fabs', 'cos', 'tan', 'log1p')}({f})",
            f"math.{self.pick('log2', 'cosh', 'acos', 'exp', 'sqrt', 'log')}({self.pick(a, t)})",
            f"divmod({f}, {self.pick(g, a)})[{self.pick(0, 1)}]",
            f"({f} or {self.pick(a, g)})",
            f"float({t})",
            f"(+{f})",
            f"sum(k / {self.leaf('int')} for k in ({f}, 1.5))",
            f"abs({f} - {g})",
            f"PAIR_LIST[{a} % 2][1].p",
            f"{self.pick('max', 'min')}({self.pick(0, a)}, {f}, {g})",
            f"{{'a': 0.5, 'é': -0.0}}[{s}]",
        )

    def write_bool(self, d):
        if self.narrow():
            return super().write_bool(d)
        a, b, f = self.write("int", d), self.write("int", d), self.write("float", d)
        s, t = self.write("str", d), self.write("bool", d)
        return self.pick(
            f"({a} {self.pick('<', '<=', '==')} {f} {self.pick('<', '!=')} {b})",
            f"({t} {self.pick('is', 'is not')} {self.pick('True', 'False', 'None')})",
            f"({t} {self.pick('==', '<', '>=')} {self.pick(a, f, t)})",
            f"{self.pick('any', 'all')}(k > {self.leaf('int')} for k in ({a}, {b}, 3))",
            f"({s} in 'abc x')",
            f"('a' in {s})",
            f"('a' in {s}.split())",
            f"bool({s}.split())",
            f"{s}.startswith(('a', 'x'))",
            f"({s} not in ('a', 'é'))",
            f"(({a}, {f}) {self.pick('==', '!=', '<')} ({b}, {f}))",
            f"isinstance({self.pick(a, f, t, s)}, {self.pick('int', 'float', '(int, str)')})",
            f"bool({self.pick(a, f, s)})",
            f"({a} in ({b}, {self.leaf('int')}, 2.0))",
            f"({t} {self.pick('^', '&', '|')} {self.leaf('bool')})",
            f"(COLORS.get({s}) {self.pick('is', 'is not', '==')} {self.pick('None', 'Color.RED')})",
            f"FLAGS.get({s}, {self.pick('False', t)})",
            f"{s}.{self.pick('isdigit', 'isalpha', 'isupper', 'isspace')}()",
            f"({s} {self.pick('<', '>=')} {self.pick(repr('b'), self.leaf('str'))})",
            f"(DAYS.get({s}) {self.pick('is', '==')} {self.pick('None', 'dt.date(1, 1, 1)')})",
            f"math.{self.pick('isnan', 'isinf', 'isfinite')}({self.pick(a, f)})",
        )

    def write_str(self, d):
        if self.narrow():
            return super().write_str(d)
        s = self.write("str", d)
        return self.pick(
            f"{s}.{self.pick('swapcase', 'casefold', 'capitalize', 'rstrip')}()",
            f"{s}.replace('a', 'bb')",
            f"{s}.{self.pick('zfill', 'ljust', 'rjust')}({self.pick(0, 3)})",
            f"({s} * {self.pick(0, 2, -1, 'True')})",
            f"{s}[{self.pick('::-1', '::2', '-2:', '3:1', '1:3', '-2:0:-1')}]",
            f"{s}.removeprefix('a')",
            f"('%s!' % {s})",
            f"COLORS[{s}].name",
            f"('é' + {s})",
            f"{self.pick('min', 'max')}({s}, 'b')",
            f"({s} or {self.leaf('str')})",
            f"str({s})",
            f"(lambda q: q.upper())({s})",
            f"{s}.{self.pick('split', 'rsplit')}({self.pick('', repr('b'))})[{self.pick(0, -1)}]",
            f"{s}.{self.pick('partition', 'rpartition')}('b')[{self.pick(0, 1, 2)}]",
            f"'-'.join({s}.split('b'))",
        )

    def statements(self, depth, indent, kept=()):
        lines = super().statements(depth, indent, kept)
        for _ in range(self.rng.randrange(3)):
            kind = self.pick("int", "float", "str")
            own = [n for n in self.names.get(kind, []) if n.startswith("v")]
            if own:
                lines += [indent + line for line in self.more(kind, own)]
        return lines

    def more(self, kind, own):
        """Return statements that change names of their own."""
        self.count += 1
        one, two = self.rng.choice(own), self.rng.choice(own)
        x, n = f"x{self.count}", f"n{self.count}"
        new = lambda d=1: self.write(kind, d)
        division = f"{n} = {self.leaf('int')} // {self.leaf('int')}"
        match self.rng.randrange(15):
            case 11:
                return [
                    f"{x} = [{self.pick('', new())}]",
                    f"for {n} in range({self.leaf('int')} % 5):",
                    f"    if {self.write('bool', 1)}:",
                    f"        {x}.append({self.pick(new(), one)})",
                    f"    {self.pick('pass', f'{x} += [{new()}]', f'{x}.append({n})')}",
                    f"for {n} in {self.pick(x, f'reversed({x})', f'sorted({x})', f'{x}[1:]')}:",
                    f"    {one} = {n}",
                    *self.pick(
                        (), (f"if {x}:", f"    {two} = {x}[{self.pick(0, -1)}]")
                    ),
                ]
            case 12:
                test = self.pick("", f" if {n} != 2")
                return [
                    f"{x} = [{new()} for {n} in range({self.leaf('int')} % 6){test}]",
                    f"y{x} = {x}",
                    f"if {self.write('bool', 1)}:",
                    f"    y{x}.append({one})",
                    f"    {x}.extend([{new()}, {two}])",
                    f"for {n}, k in {self.pick(f'pairwise({x})', f'zip({x}, {x}[1:])')}:",
                    f"    {one} = {self.pick(n, 'k')}",
                    f"if len({x}) > 2:",
                    f"    {two} = {self.pick('min', 'max')}(y{x}, default={one})",
                ]
            case 13:
                return [
                    f"{x} = []",
                    f"for {n} in ({new()}, {new()}):",
                    f"    {x}.append(({n}, {self.leaf('int')}, {self.leaf('str')}))",
                    f"for k, ({n}, y{x}, z{x}) in enumerate({x}, {self.pick(0, 2)}):",
                    f"    if y{x} > k and z{x} != 'a':",
                    f"        {one} = {n}",
                ]
            case 10:
                value = self.write("int", 1)
                return [f"if ({n} := {value}) > 2:", f"    {one} = {new()}"]
            case 0:
                return [f"{one}, {two} = {two}, {new()}"]
            case 1:
                pairs = ", ".join(new() for _ in range(3))
                return [
                    f"for {n}, {x} in enumerate(({pairs})):",
                    f"    if {n} {self.pick('>', '==')} 1:",
                    f"        {one} = {x}",
                ]
            case 2:
                pairs = [f"({new()}, {new()})" for _ in "12"]
                return [
                    f"for {x}, {n} in zip({', '.join(pairs)}):",
                    f"    {one} = {x} if {self.write('bool', 1)} else {n}",
                ]
            case 3:
                inner = self.pick(
                    "(ValueError, ZeroDivisionError)",
                    "ValueError",
                    "ZeroDivisionError",
                    "ZeroDivisionError as e",
                )
                return [
                    f"{n} = 0",
                    "try:",
                    "    try:",
                    f"        {division}",
                    f"        {one} = {new()}",
                    f"    except {inner}:",
                    f"        {one} = {new()}",
                    *self.pick((), ("    else:", f"        {n} += 1")),
                    "except ZeroDivisionError:",
                    f"    {two} = {new()}",
                    f"if {n} > 2:",
                    f"    {one} = {two}",
                ]
            case 4:
                more = f"{x}.append({new()})"
                return [
                    f"{x} = [{new()}]",
                    self.pick(more, f"{x} += [{new()}, {one}]", f"{x} += ({one},)"),
                    f"for {n} in {x}:",
                    f"    {one} = {n}",
                ]
            case 5:
                return [f"{x} = {one} = {new()}", f"{two} = {x}", f"del {x}"]
            case 6:
                return [
                    f"{n} = 0",
                    "while True:",
                    f"    {n} += 1",
                    f"    if {n} > 3 or {self.write('bool', 1)}:",
                    "        break",
                    f"    {one} = {new()}",
                ]
            case 7:
                return [
                    f"for {n} in range({self.pick(3, 5)}):",
                    f"    for {x} in range({self.leaf('int')} % 4):",
                    f"        if {x} == {n} - 1:",
                    f"            {self.pick('break', 'continue')}",
                    f"        {one}, {two} = {new()}, {one}",
                    "    else:",
                    f"        {one} = {new()}",
                    f"        {self.pick('continue', 'break', 'pass')}",
                ]
            case 8:
                return [
                    f"for {n} in range({self.pick(3, 6)}, {self.pick(0, -3)}, -2):",
                    f"    {two} = {one}",
                    "    try:",
                    f"        {x} = {self.leaf('int')} % ({n} - {self.leaf('int')})",
                    "    except ZeroDivisionError:",
                    f"        {one} = {new()}",
                ]
            case 9:
                return [
                    f"{x} = ({one}, ({two}, {new()}))",
                    f"({one}, ({n}, {two})) = {x}",
                ]
        return [
            f"{x} = None",
            f"if {self.write('bool', 1)}:",
            f"    {x} = {new()}",
            f"if {x} is not None:",
            f"    {one} = {x}",
        ]

    def name_window(self):
        super().name_window()
        self.names["int"] += [
            "min(items, key=lambda t: t.x).i",
            "sum(1 for t in items if t.b)",
            "sum(t.b for t in items)",
            "max(items, key=lambda t: (t.s, -t.i)).j",
            "items[len(items) // 2].i",
            "min(t.i if t.b else t.j for t in items)",
            "len([t for t in items if t.b])",
            "sum(n * t.i for n, t in enumerate(items, 2))",
            "sum([t.j for t in items[-3:]], 4)",
            "sorted(t.i for t in items)[0]",
            "sorted(items, key=lambda t: (t.s, t.j))[1].i",
            "sorted(items, key=lambda t: t.b, reverse=True)[-1].j",
            "max((t.i for t in items if t.b), default=-1)",
        ]
        self.names["float"] += [
            "sum(t.x * k for t in items for k in range(t.j % 3))",
            "max(k * t.y for t in items for k in (1, 2) if k > t.i)",
            "items[-2].y",
            "sum((b.x - a.x for a, b in zip(items, items[1:])), 0.5)",
            "sorted([t.x for t in items])[len(items) // 2]",
            "sorted((t.y for t in items), reverse=True)[0]",
            "sorted(items, key=lambda t: -t.y)[0].x",
            "sorted((t.b, t.x) for t in items)[-1][1]",
            "max([t.y for t in items if t.b], default=0.5)",
            "sum((t.x for t in reversed(items[:4])), -0.0)",
        ]
        self.names["bool"] += [
            "any(t.b for t in items)",
            "all(t.x > t.y for t in items)",
        ]
        self.names["str"] += [
            "min(t.s for t in items)",
            "sorted(t.s for t in items)[-1]",
            "items[::-1][0].s",
        ]


class WiderWriter(Wider, Writer):
    """Writes functions of plain items."""


class WiderRichWriter(Wider, RichWriter):
    """Writes functions of items of many types."""


COLUMNS = ("i", "j", "x", "y", "s", "b", "ts")
RICH_COLUMNS = (*COLUMNS, "o", "z", "m", "k", "g", "e", "r")


def write_columns(rng, rich, in_time):
    """Return named columns at random, as (name, function, attribute)."""
    found = []
    for number in range(rng.randrange(1, 5)):
        functions = ["sum", "count", "min", "max", "mean", "first", "last", "any"]
        function = rng.choice(functions + ["window_start", "window_end"] * in_time)
        numbers = function in ("sum", "mean")
        plain = ("i", "j", "x", "y", "o") if rich else ("i", "j", "x", "y")
        names = plain if numbers else (RICH_COLUMNS if rich else COLUMNS)
        bare = function in ("count", "window_start", "window_end")
        found.append((f"c{number}", function, None if bare else rng.choice(names)))
    return found


def write_window_of(rng, rich):
    """Return the arguments of a window at random."""
    size, step = rng.randrange(1, 7), rng.choice([None, rng.randrange(1, 9)])
    late = rng.choice(["error", "drop", "current", "current"])
    match rng.randrange(8 if rich else 6):
        case 0:
            return {"count": size}
        case 1:
            return {"count": size, "every": rng.randrange(1, 5)}
        case 2:
            return {"time": size, "on": "ts", "every": step, "late": late}
        case 3:
            length = rng.choice([size, size / 4, 0.1])
            step = rng.choice([None, 1, 0.1, 0.7])
            return {"time": length, "on": "tf", "every": step, "late": late}
        case 4:
            return {"delta": size, "on": rng.choice(["ts", "tf"]), "every": step}
        case 5:
            return {"delta": size / 3, "on": "tf", "every": rng.choice([None, 0.5])}
        case 6:
            step = rng.choice([None, "1 h", "90 min", "7 h"])
            return {"time": "5 h", "on": "m", "every": step, "late": late}
    return {"time": "3 d", "on": "k", "every": rng.choice([None, "1 d"]), "late": late}


class Items:
    """Makes items; the rougher, the more of their values are extreme."""

    def __init__(self, rng, rich):
        self.rng = rng
        self.rich = rich
        self.ts, self.tf = rng.randrange(-20, 20), rng.uniform(-3, 3)
        self.back = rng.choice([0, 0, 0.1])  # how often times fall

    def make(self, count, rough):
        return [self.one(rough) for _ in range(count)]

    def some(self, values, plain, rough):
        return self.rng.choice(values) if self.rng.random() < rough else plain()

    def one(self, rough):
        rng = self.rng
        step = -1 if rng.random() < self.back else 1
        self.ts += step * rng.choice([0, 0, 1, 1, 2, 9])
        self.tf += step * rng.choice([0.0, 0.05, 0.1, 0.3, 2.5])
        floats = [*FLOATS, math.nan, math.inf, -math.inf]
        plain = (
            self.some(INTS, lambda: rng.randrange(-9, 30), rough),
            self.some(INTS, lambda: rng.randrange(1, 9), rough),
            self.some(floats, lambda: round(rng.uniform(-9, 9), 3), rough),
            self.some(floats, lambda: round(rng.uniform(1, 9), 3), rough),
            rng.random() < 0.5,
            rng.choice(STRINGS),
            self.some([1 << 61, -(1 << 63)], lambda: self.ts, rough / 9),
            self.some([math.nan, math.inf], lambda: self.tf, rough / 9),
        )
        if not self.rich:
            return Item(*plain)
        missing = rng.choice([0.0, 0.3])
        times = [
            dt.datetime.min,
            dt.datetime.max,
            dt.datetime(2024, 2, 29, tzinfo=dt.UTC),
        ]
        day = dt.datetime(2024, 2, 27) + dt.timedelta(hours=self.ts, seconds=self.tf)
        return Rich(
            *plain,
            self.some([None], lambda: rng.randrange(-3, 9), missing),
            self.some([None, math.nan], lambda: rng.uniform(-2, 2), missing),
            self.some([None], lambda: rng.choice(STRINGS), missing),
            self.some([*times, day.replace(fold=1)], lambda: day, rough / 3),
            self.some([dt.date.min, dt.date.max], day.date, rough / 3),
            self.some(
                [dt.timedelta.max, dt.timedelta.min],
                lambda: dt.timedelta(hours=rng.randrange(-9, 9), microseconds=self.ts),
                rough / 3,
            ),
            rng.choice(list(Color)),
            rng.choice([b"", b"a", b"xyz", b"\xff"]),
            Pair(rng.uniform(0, 3), rng.randrange(9)),
        )
