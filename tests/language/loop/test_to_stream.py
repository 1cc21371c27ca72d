"""A loop gives the same as a stream as it gives when it is simply called."""

from __future__ import annotations

import random
import textwrap
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.errors import LoopError
from tests.language.loop import loops

NUMBERS = list(range(50))
LOOPS = {
    "squares": (NUMBERS,),
    "typed": (50,),
    "skipping": (NUMBERS,),
    "waiting": (NUMBERS,),
    "remembering": (NUMBERS,),
    "nested": (NUMBERS,),
    "tallied": (NUMBERS,),
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize(
    ("on", "degree"), [("sequential", None), ("local", 1), ("local", 3)]
)
def test_a_loop_gives_the_same_as_a_stream(name, on, degree):
    loop, wanted, found = getattr(loops, name), [], []
    loop(*LOOPS[name], wanted)

    ab.run(loop.stream(*LOOPS[name], found), on=on, degree=degree)

    assert wanted == found
    assert len(found) > 20


@pytest.mark.spark
@pytest.mark.parametrize("name", ["remembering", "typed"])
def test_a_loop_gives_the_same_on_spark(name):
    loop, wanted, found = getattr(loops, name), [], []
    loop(*LOOPS[name], wanted)

    ab.run(loop.stream(*LOOPS[name], found), on="spark", degree=2, epoch_items=20)

    assert wanted == found


def operators(sink):
    made = ab.compile(sink, on="local").to_dict()
    return {one["name"]: one for one in made["operators"]}


def regions(sink):
    found = [r.operators for r in ab.compile(sink, on="local").plan.regions]
    return [[one for one in r if not one.endswith("_source")] for r in found]


def test_stages_that_keep_nothing_are_replicated():
    assert [["nested_1"]] == regions(loops.nested.stream(NUMBERS, []))
    assert [["skipping_1", "skipping_2"]] == regions(loops.skipping.stream([], []))


def test_stages_with_state_stay_sequential_and_say_why():
    sink = loops.tallied.stream(NUMBERS, [])

    assert [["tallied_1"]] == regions(sink)
    (reason,) = [
        one
        for one in operators(sink)["tallied_2"]["reasons"]
        if one["trait"] == "state"
    ]
    assert reason["file"].endswith("tests/language/loop/loops.py")
    line = Path(loops.__file__).read_text().splitlines()[reason["line"] - 1]
    assert "tally.add(n)" in line or "self.count += n" in line
    assert "global" == operators(sink)["tallied_2"]["state"]


def test_operators_stand_at_the_lines_of_their_stages():
    text = Path(loops.__file__).read_text().splitlines()
    graph = ab.compile(loops.squares.stream([], []), on="local").graph

    lines = [text[op.site.line - 1].strip() for op in graph]

    assert [
        "for n in numbers:",
        'with ab.stage(inputs="n", outputs="n"):',
        'with ab.stage(inputs="n"):',
    ] == lines


def test_types_are_taken_from_annotations():
    graph = ab.compile(loops.typed.stream(3, []), on="local").graph

    assert loops.Point is graph["typed_1"].type


def test_a_loop_may_be_told_to_replicate_or_not():
    sink = loops_of(
        """
        def told(items, helper, out):
            for n in items:
                with ab.stage(replicate=True):
                    n = helper(n)
                with ab.stage(replicate=False):
                    n = n + 1
                with ab.stage():
                    out.append(n)
        """
    )["told"].stream([1], len, [])

    assert [["told_1"]] == regions(sink)
    assert "declared" in ab.explain(sink, on="local")


def test_a_last_stage_that_names_outputs_is_collected():
    found = loops_of(
        """
        def last(items):
            for n in items:
                with ab.stage(name="more", outputs=("m", "n")):
                    m = n + 1
        """
    )["last"].stream((1, 2))

    ab.run(found, on="local")

    assert [(2, 1), (3, 2)] == found.items
    assert ["last_source", "more", "last_outputs"] == list(operators(found))


def test_a_loop_in_a_function_sees_the_variables_around_it():
    made = loops_of(
        """
        def make(step):
            def inner(items, out, *, times=2):
                for n in items:
                    with ab.stage():
                        n = n + step * times
                    with ab.stage():
                        out.append(n)
            return ab.to_stream(inner)
        """,
        decorated=False,
    )["make"]
    out, wanted = [], []

    ab.run(made(10).stream([1, 2], out, times=3), on="local")
    made(10)([1, 2], wanted, times=3)

    assert [31, 32] == out == wanted


def test_a_method_may_be_a_loop():
    made = loops_of(
        """
        class Sums:
            def __init__(self, step):
                self.__step = step

            @ab.to_stream
            def run(self, items, out):
                for n in items:
                    with ab.stage():
                        n = n + self.__step
                    with ab.stage():
                        out.append(n)
        """,
        decorated=False,
    )["Sums"]
    out, wanted = [], []

    ab.run(made(10).run.stream([1, 2], out), on="local")
    made(10).run([1, 2], wanted)

    assert [11, 12] == out == wanted


def test_a_condition_that_assigns_is_a_source():
    made = loops_of(
        """
        def until(read, out):
            while (n := read()) is not None:
                with ab.stage():
                    n = n + 1
                with ab.stage():
                    out.append(n)
        """
    )["until"]
    out = []

    ab.run(made.stream(iter([1, 2, None]).__next__, out), on="local")

    assert [2, 3] == out


def test_it_keeps_its_name_and_words():
    assert "remembering" == loops.remembering.__name__
    assert loops.remembering.__doc__.startswith("Keeps variables")


_files = iter(range(1000))


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def loops_of(text, *, decorated=True):
    """Return what a program file of the user's defines."""
    body = textwrap.dedent(text)
    if decorated:
        body = body.replace("\ndef ", "\n@ab.to_stream\ndef ", 1)
    name = f"loop_{next(_files)}.py"
    whole = "import anabranch as ab\n" + body
    Path(name).write_text(whole)
    names = {"__name__": "user", "__file__": name}
    exec(compile(whole, str(Path(name).resolve()), "exec", dont_inherit=True), names)
    return names


# code of a loop: the line of the refusal (marked #!) and words of the reason
REFUSED = {
    "from turn to turn across stages": (
        """
        def f(items, out, v=0):
            for n in items:
                with ab.stage():
                    n = n + v  #!
                with ab.stage():
                    v = n
                    out.append(n)
        """,
        "v may have its value from an earlier turn",
    ),
    "from a stage to the next turn of the head": (
        """
        def f(items, out, v=0):
            while v < 3:  #!
                with ab.stage():
                    v = v + 1
                with ab.stage():
                    out.append(v)
        """,
        "v may have its value from an earlier turn",
    ),
    "assigned in one branch only": (
        """
        def f(items, out, v=0):
            for n in items:
                with ab.stage():
                    if n > 1:
                        v = n
                with ab.stage():
                    out.append(v)  #!
        """,
        "v may have its value from an earlier turn",
    ),
    "never assigned before": (
        """
        def f(items, out):
            for n in items:
                with ab.stage():
                    if n:
                        v = 1
                    out.append(v)  #!
        """,
        "v may be read before it is assigned",
    ),
    "break": (
        """
        def f(items, out):
            for n in items:
                with ab.stage():
                    for m in range(n):
                        break
                    if n > 3:
                        break  #!
        """,
        "a stage cannot `break` the loop",
    ),
    "continue": (
        """
        def f(items, out):
            for n in items:
                with ab.stage():
                    try:
                        n = 1 / n
                    except ZeroDivisionError:
                        continue  #!
                with ab.stage():
                    out.append(n)
        """,
        "a stage cannot `continue` the loop",
    ),
    "return": (
        """
        def f(items, out):
            for n in items:
                with ab.stage():
                    while n:
                        return  #!
        """,
        "a stage cannot end the loop",
    ),
    "else": (
        """
        def f(items, out):
            for n in items:
                with ab.stage():
                    out.append(n)
            else:
                out.append(0)  #!
        """,
        "the `else` of the loop",
    ),
    "code behind the loop": (
        """
        def f(items, out):
            for n in items:
                with ab.stage():
                    out.append(n)
            out.close()  #!
        """,
        "code behind the loop",
    ),
    "code between stages": (
        """
        def f(items, out):
            for n in items:
                with ab.stage():
                    n = n + 1
                n = n + 2  #!
                with ab.stage():
                    out.append(n)
        """,
        "code between stages",
    ),
    "a stage in a branch": (
        """
        def f(items, out):
            for n in items:
                with ab.stage():
                    n = n + 1
                if n:
                    with ab.stage():
                        out.append(n)
        """,
        "code between stages",
    ),
    "a stage in a stage": (
        """
        def f(items, out):
            for n in items:
                with ab.stage():
                    with ab.stage():  #!
                        out.append(n)
        """,
        "a stage must stand directly",
    ),
    "a stage outside": (
        """
        def f(items, out):
            with ab.stage():
                pass
        """,
        "stages must stand directly in the body of one loop",
    ),
    "a loop inside something": (
        """
        def f(items, out):
            if items:
                for n in items:
                    with ab.stage():
                        out.append(n)
        """,
        "stages must stand directly in the body of one loop",
    ),
    "two loops": (
        """
        def f(items, out):
            for n in items:
                with ab.stage():
                    out.append(n)
            for n in items:
                with ab.stage():
                    out.append(n)
        """,
        "one loop of the function",
    ),
    "no stage": (
        """
        def f(items, out):
            for n in items:
                out.append(n)
        """,
        "no stage is marked",
    ),
    "a yield": (
        """
        def f(items, out):
            for n in items:
                with ab.stage():
                    yield n  #!
        """,
        "a function that yields",
    ),
    "a global": (
        """
        def f(items, out):
            global total  #!
            for n in items:
                with ab.stage():
                    total = n
        """,
        "total belongs to code outside",
    ),
    "a mark with company": (
        """
        def f(items, out):
            for n in items:
                with ab.stage() as it:  #!
                    out.append(n)
        """,
        "the mark of a stage must stand alone",
    ),
    "a mark that is computed": (
        """
        def f(items, out):
            for n in items:
                with ab.stage(inputs=items):  #!
                    out.append(n)
        """,
        "inputs of a stage must be written out",
    ),
    "an unknown argument": (
        """
        def f(items, out):
            for n in items:
                with ab.stage(input="n"):  #!
                    out.append(n)
        """,
        "unexpected keyword argument 'input'",
    ),
    "an input that is missing": (
        """
        def f(items, out):
            for n, m in items:
                with ab.stage(inputs="n"):
                    out.append(n + m)  #!
        """,
        "the stage reads m, which its inputs do not name",
    ),
    "an output that is missing": (
        """
        def f(items, out):
            for n in items:
                with ab.stage(outputs="n"):
                    n = n + 1
                    m = n  #!
                with ab.stage():
                    out.append(n + m)
        """,
        "the stage assigns m, which a later stage reads",
    ),
    "an input from nowhere": (
        """
        def f(items, out):
            for n in items:
                with ab.stage(inputs=("n", "m")):  #!
                    out.append(n)
        """,
        "the inputs name m",
    ),
    "an output from nowhere": (
        """
        def f(items, out):
            for n in items:
                with ab.stage(outputs=("n", "m")):  #!
                    n = n + 1
                with ab.stage():
                    out.append(n)
        """,
        "the outputs name m",
    ),
    "a function that sees a variable change": (
        """
        def f(items, out):
            for n in items:
                key = lambda x: x + n  #!
                with ab.stage():
                    out.append(key(1))
        """,
        "made here sees n",
    ),
    "state that replicas would share": (
        """
        def f(items, out, v=0):
            for n in items:
                with ab.stage(replicate=True):  #!
                    v = v + n
                with ab.stage():
                    out.append(v)
        """,
        "the stage keeps v from turn to turn",
    ),
    "state that begins as what others see": (
        """
        def f(items, out):
            for n in items:
                with ab.stage():  #!
                    out += [n]
        """,
        "begins as a list that others may see change",
    ),
    "an object that two stages share": (
        """
        def f(items, out):
            seen = {}
            for n in items:
                with ab.stage():
                    seen[n] = True
                with ab.stage():
                    out.append(len(seen))  #!
        """,
        "f_2 uses seen, which f_1 may change",
    ),
    "an object that the head changes": (
        """
        def f(items, out):
            buffer = []
            for n in items:
                buffer.append(n)
                with ab.stage():
                    total = sum(buffer)  #!
                with ab.stage():
                    out.append(total)
        """,
        "buffer, which f_source may change",
    ),
    "an object that the head gives again and changes": (
        """
        def f(items, out):
            buffer = []
            for n in items:  #!
                buffer.append(n)
                now = buffer
                with ab.stage():
                    total = sum(now)
                with ab.stage():
                    out.append(total)
        """,
        "gives the captured variable buffer again in every turn",
    ),
    "one of several": (
        """
        def f(items, out):
            buffer = bytearray(1)
            for n in items:  #!
                buffer[0] = n
                now = buffer
                with ab.stage():
                    total = now[0] + n
                with ab.stage():
                    out.append(total)
        """,
        "gives the captured variable buffer again in every turn",
    ),
    "what the loop goes over": (
        """
        def f(items, out):
            for n in items:  #!
                with ab.stage():
                    items.append(n)
                with ab.stage():
                    out.append(n)
        """,
        "f_source uses items, which f_1 may change",
    ),
    "a global that a function assigns": (
        """
        def f(items, out):
            for n in items:
                with ab.stage():
                    n = bump(n)
                with ab.stage():
                    out.append(COUNT + n)  #!

        COUNT = 0

        def bump(n):
            global COUNT
            COUNT += 1
            return n
        """,
        "f_2 uses COUNT, which f_1 may change",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_stages_is_refused_with_line_and_reason(case):
    text, words = REFUSED[case]
    names = loops_of(text)
    file = names["__file__"]
    lines = Path(file).read_text().splitlines()
    marked = [n for n, line in enumerate(lines, 1) if "#!" in line]

    with pytest.raises(LoopError) as refusal:
        names["f"].stream([1, 2, 3], [])

    assert words in str(refusal.value)
    assert str(refusal.value).startswith(f"{file}:{marked[0] if marked else ''}")


def test_nobody_is_told_to_replicate_what_surely_changes_something():
    text, _ = REFUSED["an object that two stages share"]

    with pytest.raises(LoopError) as refusal:
        loops_of(text)["f"].stream([1, 2, 3], [])

    assert "replicate=True" not in str(refusal.value)


def test_what_is_refused_still_runs_as_it_stands():
    text, _ = REFUSED["from turn to turn across stages"]
    out = []

    loops_of(text)["f"]([1, 2, 3], out)

    assert [1, 3, 6] == out


def test_a_function_without_source_is_refused():
    names = {"ab": ab}
    exec("@ab.to_stream\ndef f():\n    pass", names)

    with pytest.raises(LoopError, match="its source is not available"):
        names["f"].stream()


def test_only_functions_are_loops():
    with pytest.raises(TypeError, match="got type"):
        ab.to_stream(int)


VARIABLES = "abcd"


def random_loop(seed):
    """Write a loop of random assignments, in random stages; some depend on turns."""
    choose = random.Random(seed)

    def value():
        one, two = choose.choices([*VARIABLES, "n", "3"], k=2)
        return f"({one} {choose.choice('+-*')} {two}) % 97"

    def assignment(indent):
        name = choose.choice(VARIABLES)
        match choose.randrange(6):
            case 0:
                return [f"{indent}if n % 2:", f"{indent}    {name} = {value()}"]
            case 1:
                return [f"{indent}{name} += {value()}"]
            case 2:
                return [
                    f"{indent}for n_ in range(3):",
                    f"{indent}    {name} = {value()}",
                ]
        return [f"{indent}{name} = {value()}"]

    lines = ["def f(items, out):"]
    lines += [f"    {name} = {n}" for n, name in enumerate(VARIABLES)]
    lines += ["    for n in items:"]
    for _ in range(choose.randrange(3)):
        lines += assignment("        ")
    for _ in range(choose.randrange(1, 4)):
        lines.append("        with ab.stage():")
        for _ in range(choose.randrange(1, 4)):
            lines += assignment("            ")
    shown = "".join(f"{v}, " for v in VARIABLES if choose.random() < 0.5)
    lines += ["        with ab.stage():", f"            out.append((n, {shown}))"]
    return "\n" + "\n".join(lines) + "\n"


def test_any_loop_is_refused_or_gives_the_same():
    """
    Of random loops a good part is accepted, and these give what they gave before.
    """
    accepted = 0
    for seed in range(150):
        loop, wanted, found = loops_of(random_loop(seed))["f"], [], []
        loop(range(12), wanted)
        try:
            sink = loop.stream(range(12), found)
        except LoopError:
            continue
        accepted += 1

        ab.run(sink, on="sequential")

        assert wanted == found, random_loop(seed)
    assert 30 < accepted < 150
