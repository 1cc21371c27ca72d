"""How many plainly pure functions are accepted, and how many impure ones refused.

The functions are the first thousand at the top level of modules that are written in
Python, in the order of their files: Python's own, then those of the packages that are
installed beside Anabranch. The rule that chooses them looks at their
syntax alone, so it is no part of what it tests:

- a function counts if it is no generator and no coroutine, has no decorator, and all
  names that it takes from outside are builtins, modules of `WORLD`, or globals of its
  module that are assigned once, to a literal;
- it is *impure* if it calls `print`, `open` or `input`, or a function of a module of
  `WORLD` (apart from those of `GIVEN`, which are told the time), or changes a global: by a `global` statement, by an assignment to an element of
  it, or by one of the methods in `CHANGES`;
- it is *pure* if it calls nothing but the builtins in `PURE` and the methods of texts in
  `TEXTS`, and assigns nothing but its own variables, and those not in place.

What is neither is left out.
"""

import ast
import builtins
import itertools
import os
import sysconfig
from pathlib import Path

import pytest

from anabranch.language.drafts import build_graph
from anabranch.language.sources import from_iterable
from anabranch.python.analyze import analyze
from tests.python.test_cases import load

WORLD = {"os", "sys", "time", "random", "socket", "subprocess", "threading"}
# How many arguments make a function of `time` one of its arguments alone.
GIVEN = {
    "mktime": 1,
    "gmtime": 1,
    "localtime": 1,
    "ctime": 1,
    "asctime": 1,
    "strftime": 2,
}
TOUCHES = {"print", "open", "input"}
CHANGES = {"append", "extend", "insert", "remove", "pop", "clear", "add", "update"}
PURE = {
    *("abs", "all", "any", "bool", "chr", "divmod", "enumerate", "float", "int", "len"),
    *("isinstance", "list", "max", "min", "ord", "range", "repr", "reversed", "round"),
    *("sorted", "str", "sum", "tuple", "zip", "dict", "ValueError", "TypeError"),
    *("IndexError", "KeyError", "OverflowError", "NotImplementedError"),
}
TEXTS = {
    *(
        "strip",
        "lstrip",
        "rstrip",
        "split",
        "rsplit",
        "join",
        "lower",
        "upper",
        "title",
    ),
    *("startswith", "endswith", "replace", "find", "rfind", "partition", "rpartition"),
    *("isdigit", "isalpha", "isspace", "isidentifier", "splitlines", "encode", "zfill"),
}
LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "site-packages"}
SKIPPED = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Lambda)
STORES = (ast.Store, ast.Del)


def library_files():
    """Yield the files of Python's library, then those of the packages beside us."""
    for name in ("stdlib", "purelib"):
        root = Path(sysconfig.get_paths()[name])
        found = []
        for folder, inner, files in os.walk(root):
            inner[:] = [each for each in inner if each not in LEFT_OUT]
            found += [Path(folder, name) for name in files if name.endswith(".py")]
        yield from sorted(found)


def literals_of(tree):
    """Return the globals that a module assigns once, to a literal, with the text."""
    seen, found = set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, STORES):
            name = node.id
            found.pop(name, None) if name in seen else found.setdefault(name, None)
            seen.add(name)
    literals = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                try:
                    ast.literal_eval(value)
                except (ValueError, TypeError, SyntaxError, RecursionError):
                    continue
                if name in found:
                    literals[name] = ast.unparse(node)
    return literals


def own_names_of(node):
    arguments = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    stored = {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, STORES)
    }
    caught = {
        each.name for each in ast.walk(node) if isinstance(each, ast.ExceptHandler)
    }
    declared = {
        name
        for each in ast.walk(node)
        if isinstance(each, ast.Global)
        for name in each.names
    }
    return (arguments | stored | caught) - declared, declared


def judge(node, literals):
    """Return "pure", "impure" or None, and the names that a function needs."""
    inner = [each for each in ast.walk(node) if each is not node]
    kinds = (*SKIPPED, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import)
    if node.decorator_list or any(isinstance(each, kinds) for each in inner):
        return None, set()
    own, declared = own_names_of(node)
    names = {each.id for each in inner if isinstance(each, ast.Name)} - own
    modules = names & WORLD
    needed = {name for name in names - modules if not hasattr(builtins, name)}
    if not needed <= literals.keys():
        return None, set()
    if _is_impure(inner, own, modules, declared, needed):
        return "impure", needed | modules
    is_pure = not modules and not declared and _is_pure(inner, own)
    return ("pure", needed) if is_pure else (None, set())


def _is_impure(inner, own, modules, declared, needed):
    stored = {e.id for e in inner if isinstance(e, ast.Name) and type(e.ctx) in STORES}
    if declared & stored:
        return True
    for each in inner:
        match each:
            case ast.Call(func=ast.Name(id=name)) if name in TOUCHES - own:
                return True
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr=attr), args=args
            ) if name in modules and not _is_told_time(name, attr, args):
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if (
                name in needed and attr in CHANGES
            ):
                return True
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()) if (
                name in needed
            ):
                return True
    return False


def _is_told_time(module, function, args):
    if module != "time" or any(isinstance(each, ast.Starred) for each in args):
        return False
    return function in GIVEN and GIVEN[function] <= len(args)


def _is_pure(inner, own):
    return all(_is_harmless(each, own) for each in inner)


def _is_harmless(node, own):
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in PURE - own
        case ast.Call(func=func):
            return isinstance(func, ast.Attribute) and func.attr in TEXTS
        case ast.Attribute(attr=attr, ctx=ctx):
            return isinstance(ctx, ast.Load) and not attr.startswith("__")
        case ast.Subscript(ctx=ctx):
            return isinstance(ctx, ast.Load)
    # what is given may change in place, or come in any order
    in_place = (ast.AugAssign, ast.Delete, ast.With, ast.Set, ast.SetComp)
    return not isinstance(node, in_place)


def chosen_functions():
    """Yield the functions that the rule chooses: verdict, name, and a module's text."""
    for path in library_files():
        try:
            tree = ast.parse(path.read_text())
        except (SyntaxError, UnicodeDecodeError):
            continue
        literals = literals_of(tree)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                verdict, needed = judge(node, literals)
                if verdict is not None:
                    lines = [
                        f"import {name}" if name in WORLD else literals[name]
                        for name in sorted(needed)
                    ]
                    ending = f"def operator(item):\n    return {node.name}(*item)\n"
                    text = "\n".join([*lines, ast.unparse(_bare(node)), ending])
                    yield verdict, f"{path.stem}.{node.name}", text


def _bare(node):
    """Return a function without annotations, whose names may not be at hand."""
    for each in ast.walk(node):
        if isinstance(each, ast.arg):
            each.annotation = None
    node.returns = None
    node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
    node.args.kw_defaults = [ast.Constant(None) for _ in node.args.kw_defaults]
    return node


def is_accepted(path):
    stream = from_iterable(iter(())).map(load(path).operator, name="it")
    return analyze(build_graph([stream.to_list()]))["it"].state == "stateless"


def sort_functions(count, folder):
    """Return the first functions that the rule chooses: accepted, and refused."""
    accepted = {"pure": [], "impure": []}
    refused = {"pure": [], "impure": []}
    chosen = itertools.islice(chosen_functions(), count)
    for number, (verdict, name, text) in enumerate(chosen):
        path = folder / f"chosen_{number}.py"
        path.write_text(text)
        (accepted if is_accepted(path) else refused)[verdict].append(name)
    return accepted, refused


def test_the_first_functions_of_pythons_library_are_told_apart(tmp_path):
    accepted, refused = sort_functions(10, tmp_path)

    assert 10 == sum(map(len, (*accepted.values(), *refused.values())))
    assert accepted["pure"]
    assert refused["impure"]
    assert [] == accepted["impure"] + refused["pure"]


@pytest.mark.long
def test_precision_and_recall_over_the_functions_of_pythons_library(tmp_path):
    accepted, refused = sort_functions(1_000, tmp_path)

    pure = len(accepted["pure"]) + len(refused["pure"])
    impure = len(accepted["impure"]) + len(refused["impure"])
    assert 1_000 == pure + impure
    assert 100 <= impure
    assert [] == accepted["impure"]
    assert 0.99 <= len(accepted["pure"]) / pure, refused["pure"]
