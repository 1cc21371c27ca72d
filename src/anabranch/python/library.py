"""What a call into the builtins or a package does, and what it gives."""

from __future__ import annotations

import ast
import collections
import copy
import csv
import decimal
import functools
import hashlib
import heapq
import io
import itertools
import json
import logging
import operator
import pprint
import re
import tomllib
import types
import xml.etree.ElementTree as ET
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from anabranch.graph.declarations import declaration_of, is_trusted
from anabranch.operators.custom import Operator
from anabranch.python.attributes import IN_PLACE
from anabranch.python.classes import class_of, classes_of
from anabranch.python.known import (
    arguments_written_by,
    called_arguments,
    changes_first_argument,
    changes_settings,
    gives_view,
    is_pure,
    is_reflective,
    leaves_memory_unset,
    module_of,
    resource_of,
    why_impure,
)
from anabranch.python.methods import ADVICE, Methods, called, is_callable
from anabranch.python.objects import (
    CALLABLES,
    CONTAINERS,
    class_attribute,
    field_names,
    function_in,
    instance_attribute,
    is_instance_of_users,
    is_scalar_type,
    is_users_class,
    is_users_code,
)
from anabranch.python.packages import (
    CONTEXTS,
    ELEMENT,
    PARSE_XML,
    facts_about,
    generator_of_context,
    handles_logs,
    implementations,
    is_function_of_pandas,
    is_logging,
    seeded_generator,
)
from anabranch.python.source import node_of
from anabranch.python.universe import Universe
from anabranch.python.values import (
    ANY_NAME,
    ELEMENTS,
    LOST,
    MADE,
    NOTHING,
    PLAIN,
    Arguments,
    Bound,
    Frame,
    Fresh,
    Input,
    Known,
    LibraryObject,
    Method,
    Plain,
    Root,
    Shared,
    Value,
    join,
    shown,
)

_PLAIN_RESULTS: dict[int, type | None] = {
    **{id(each): each for each in (int, float, complex, bool, str, bytes)},
    **{id(each): str for each in (repr, ascii, format, chr, bin, oct, hex)},
    **{id(each): int for each in (len, ord)},
    **{id(each): bool for each in (isinstance, issubclass, callable, all, any)},
    **{id(each): str for each in (json.dumps, re.sub, re.escape, pprint.pformat)},
    id(re.compile): re.Pattern,
    id(ET.tostring): None,
}
_KINDS: dict[int, type] = {
    **{id(each): list for each in (heapq.nlargest, heapq.nsmallest)},
    **{id(each): list for each in (sorted, re.findall, re.split, re.finditer)},
    id(iter): type(iter([])),
    id(decimal.localcontext): type(decimal.localcontext()),
    **{id(each): re.Match for each in (re.match, re.search, re.fullmatch)},
    **{
        id(getattr(hashlib, name)): type(hashlib.sha256())
        for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "new")
    },
}
# What they give holds the elements of their arguments, not the arguments.
_SEQUENCES = frozenset(
    map(
        id,
        (
            *(list, tuple, set, frozenset, sorted, reversed, filter, iter),
            *(heapq.nlargest, heapq.nsmallest),
            *(collections.deque, itertools.chain, itertools.islice),
            *(itertools.takewhile, itertools.dropwhile, itertools.filterfalse),
        ),
    )
)
_MAPPINGS = frozenset(
    map(
        id,
        (
            *(dict, collections.OrderedDict, collections.defaultdict),
            *(collections.Counter, collections.ChainMap),
        ),
    )
)
_PAIRING = frozenset(map(id, (zip, enumerate, itertools.pairwise, itertools.product)))
_NUMERIC = frozenset(map(id, (sum, abs, round, pow)))
_NUMERIC_MODULES = ("math", "cmath", "statistics")
_FRESH_MODULES = frozenset(
    [
        *("math", "json", "re", "statistics", "collections", "struct", "itertools"),
        *("contextlib", "hashlib", "_hashlib", "hmac"),
    ]
)
_GIVES_FRESH = frozenset(
    map(id, (dict, map, zip, enumerate, range, slice, sum, abs, round, divmod, pow))
)
_NEVER_KEEPS = frozenset(map(id, (map, filter, sorted, sum, collections.defaultdict)))


class Results(Methods):
    """The part of the interpreter that knows what pure functions give."""

    def result_of(  # noqa: PLR0911 - one return for each kind of result
        self, obj: Any, args: Arguments, made: Value, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what a pure function gives; `made` is what functions among them do."""
        if id(obj) in _PLAIN_RESULTS:
            return frozenset([Plain(_PLAIN_RESULTS[id(obj)])])
        if is_scalar_type(obj):
            return frozenset([Plain(obj)])
        if obj is min or obj is max:
            return self._extreme(args, node, frame)
        if (obj is json.loads and not args.keywords) or any(
            obj is each for each in _DOCUMENTS
        ):
            return self._document(node)
        if obj is copy.deepcopy:
            return self._deep_copy(args, node)
        if obj is copy.copy and (made_here := self._shallow_copy(args, node, frame)):
            return made_here
        if obj is itertools.tee:
            branch = self.made_at((node, "branch"), LibraryObject)
            held = self.elements(args.all(), node, frame)
            self.heap.put(branch.site, ELEMENTS, held)
            return self.holding(tuple, frozenset([branch]), node, frame)
        if obj is ELEMENT or obj is PARSE_XML:
            tree = self.made_at((node, ELEMENT), ELEMENT)
            self.heap.put(tree.site, ELEMENTS, args.all() | {tree, Plain()})
            return frozenset([tree])
        numeric = id(obj) in _NUMERIC or module_of(obj) in _NUMERIC_MODULES
        if numeric and all(isinstance(root, Plain) for root in self._leaves(args)):
            return frozenset([number(self._leaves(args))])
        return self._object(obj, args, made, node, frame)

    def _leaves(self, args: Arguments) -> Value:
        """Return the numbers that a function is given, one by one or in a container."""
        given = args.all()
        containers = frozenset(root for root in given if not isinstance(root, Plain))
        return (given - containers) | self.inside(containers)

    def _is_library_object(self, value: Value) -> bool:
        """Tell whether nothing that can be reached is an instance of the user's."""
        found = [classes_of(root, self.universe) for root in self.operands(value)]
        return all(
            each is not None and not any(map(is_users_class, each)) for each in found
        )

    def _object(
        self,
        obj: Any,
        args: Arguments,
        made: Value,
        node: ast.AST,
        frame: Frame,
    ) -> Value:
        """Return an object that a function made, with what it may hold."""
        is_numpy = module_of(obj).startswith("numpy")
        given = args.all()
        if id(obj) in _NEVER_KEEPS or module_of(obj).startswith(("itertools", "numpy")):
            given = frozenset(root for root in given if not is_callable(root))
        unknown = LibraryObject if self._is_library_object(given) else None
        kind = _KINDS.get(id(obj), unknown)
        kind = obj if isinstance(obj, type) else np.ndarray if is_numpy else kind
        fresh = self.fresh(node, frame, kind)
        if id(obj) in _SEQUENCES:
            held = join(self.elements(v, node, frame) for v in args.positional)
            held |= args.rest | self.elements(args.rest, node, frame)
        elif id(obj) in _PAIRING:
            held = self._pairs(obj, args, node, frame)
        elif obj is map:
            held = made
        elif id(obj) in _MAPPINGS:
            kept = given if obj is collections.ChainMap else NOTHING  # maps, as such
            held = self.taken_in(args, node, frame) | made | kept
        elif is_numpy and _is_numeric(args.keywords.get("dtype", NOTHING)):
            held = PLAIN | (given if gives_view(obj) else NOTHING)
        else:
            held = given | made | self.inside(given | made)
        self.heap.put(fresh.site, ELEMENTS, held)
        facts = facts_about(fresh)
        if facts is not None and facts.open:  # a column of a table is like a table
            self.heap.put(fresh.site, ELEMENTS, frozenset([fresh]))
        copies = (isinstance(obj, type) or is_numpy) and not (
            gives_view(obj) or "copy" in args.keywords
        )
        if copies or id(obj) in _GIVES_FRESH or obj is sorted:
            return frozenset([fresh])
        if module_of(obj) in _FRESH_MODULES:
            return frozenset([fresh])
        return frozenset([fresh]) | held

    def _pairs(self, obj: Any, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Return the tuples that `zip` or `enumerate` goes through."""
        pair = self.fresh(node, frame, tuple)
        columns = [self.elements(v, node, frame) for v in args.positional]
        if obj is enumerate:
            columns = [frozenset([Plain(int)]), *columns[:1]]
        exact = obj in (zip, enumerate) and not args.rest
        for index, column in enumerate(columns):
            where = f"[{index}]" if exact else ELEMENTS
            self.heap.put(pair.site, where, column)
        rest = args.rest | self.elements(args.rest, node, frame)
        self.heap.put(pair.site, ELEMENTS, rest)
        return frozenset([pair])

    def _extreme(self, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Return what `min` or `max` chooses from."""
        found = args.keywords.get("default", frozenset()) | args.rest
        found |= self.elements(args.rest, node, frame)
        if len(args.positional) == 1:
            return found | self.elements(args.positional[0], node, frame)
        return found | join(args.positional)

    def _shallow_copy(self, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Return a copy of instances of the user's that copy themselves as all do."""
        found: set[Root] = set()
        for root in args.positional[0] if len(args.positional) == 1 else NOTHING:
            cls = class_of(root)
            if cls is None or not isinstance(root, Known) or _copies_itself(cls):
                return NOTHING
            made = self.made_at((node, cls), cls)
            for name in getattr(root.obj, "__dict__", ()):
                held = self.attribute(frozenset([root]), name, node, frame)
                self.heap.put(made.site, name, held)
            found.add(made)
        return frozenset(found)

    def _deep_copy(self, args: Arguments, node: ast.AST) -> Value:
        """Return a copy that shares nothing with what was copied."""
        given = join(args.positional[:1]) | args.rest | args.keywords.get("x", NOTHING)
        kinds: set[type | None] = set()
        kept: set[Root] = set()
        for root in self.reachable(given):
            if isinstance(root, Plain) or is_callable(root):
                kept.add(root)
                continue
            classes = classes_of(root, self.universe)
            kinds |= {None} if classes is None else classes
        made = frozenset(self.made_at((node, kind), kind) for kind in kinds)
        for each in made:
            self.heap.put(each.site, ELEMENTS, made | kept)
            if each.type in (set, frozenset):
                self.remember_order(given, each.site)
        return made | kept

    def _document(self, node: ast.AST) -> Value:
        """Return a parsed JSON text: lists and dictionaries, all the way down."""
        made = frozenset([self.made_at((node, kind), kind) for kind in (dict, list)])
        for root in made:
            self.heap.put(root.site, ELEMENTS, made | PLAIN)
        return made | PLAIN


def _copies_itself(cls: type) -> bool:
    """Tell whether copying an instance runs code, or leaves attributes out."""
    hooks = ("__copy__", "__getstate__", "__setstate__", "__getnewargs__", "__slots__")
    own = (name for base in cls.__mro__[:-1] for name in vars(base))
    return any(n.startswith("__reduce") or n in hooks for n in own) or issubclass(
        cls, CONTAINERS
    )


def _is_numeric(dtype: Value) -> bool:
    """Tell whether an array of this dtype can only hold numbers."""
    return bool(dtype) and all(
        isinstance(root, Known)
        and isinstance(root.obj, type)
        and issubclass(root.obj, int | float | complex | np.number | np.bool_)
        for root in dtype
    )


def number(parts: Value) -> Plain:
    """Return the kind of number that arithmetic on some values gives.

    >>> number(frozenset([Plain(int), Plain(bool)])), number(PLAIN)
    (Plain(type=<class 'int'>), Plain(type=None))
    """
    kinds = {root.type for root in parts if isinstance(root, Plain)}
    if kinds and kinds <= {int, bool}:
        return Plain(int)
    if kinds and kinds <= {int, bool, float}:
        return Plain(float)
    return Plain()


_TABLES: Final = (csv.reader, csv.writer, csv.DictReader, csv.DictWriter)
_DOCUMENTS: Final = (ast.literal_eval, tomllib.loads)
_RECORD: Final[Any] = collections.namedtuple  # noqa: PYI024 - for those of the user
_OF_ANY_CLASS: Final = (
    "__module__",
    "__qualname__",
    "__doc__",
    "__dict__",
    "__weakref__",
)
GETTERS: Final = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
_NEVER_CALLS = frozenset(map(id, (isinstance, issubclass, type, callable, repr, str)))


class Library(Results):
    """The part of the interpreter that calls what is not the user's."""

    def __init__(self, universe: Universe) -> None:
        super().__init__(universe)
        self._getters: dict[ast.AST, Any] = {}  # those that are made in the code
        self._records: dict[ast.AST, type] = {}  # classes that are made in the code

    @abstractmethod
    def name(self, node: ast.Name, frame: Frame) -> Value:
        """Look a name up: local, enclosing, captured, global, builtin."""

    @abstractmethod
    def is_local(self, name: str, frame: Frame) -> bool:
        """Tell whether a name is a variable of a function, not a global."""

    def _call_declared(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value | None:
        own = isinstance(obj, CALLABLES)  # an instance is declared by its class
        state = declaration_of(obj if own else type(obj)).state
        if state == "global":  # followed all the same: others may see what it does
            text = f"calls {called(node)}, which is declared to have state"
            self.found.effect("unknown", text, self.at(node, frame))
            return None
        if state != "stateless":
            return None
        believed = (
            node_of(obj.__code__) if isinstance(obj, types.FunctionType) else None
        )
        if believed is not None:
            self.found.believed.add(believed)
        return self.opaque(args, node, frame)

    def _call_library(  # noqa: PLR0911 - one return for each kind
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        self.change(arguments_written_by(obj, args), NOTHING, node, frame)
        if leaves_memory_unset(obj, args):
            text = f"{called(node)} with where= leaves memory as it was; give out="
            self.found.effect("impure", text, self.at(node, frame))
        if obj is copy.deepcopy:  # its second argument is a table that it fills
            self.change(join(args.positional[1:]), args.all(), node, frame)
        why = self.universe.why_patched(module_of(obj))
        if why is not None:
            return self.unknown(f"calls {called(node)}, but {why}", node, frame)
        if changes_settings(obj):
            at = self.at(node, frame)
            text = f"{called(node)} reaches settings that other code runs with"
            self.found.effect("impure", text, at)
            self.found.writes_settings = self.found.writes_settings or at
            return MADE
        if changes_first_argument(obj) and args.positional:
            return self._call_changing(args, node, frame)
        if is_pure(obj) or is_function_of_pandas(obj):
            return self._call_pure(obj, args, node, frame)
        if is_logging(obj):
            return self.log(args, node, frame)
        module = module_of(obj)
        if module and is_trusted(module):
            return self.opaque(args, node, frame)
        why = why_impure(obj)
        if why is not None:
            return self._call_impure(obj, why, args, node, frame)
        text = f"calls {called(node)}, of which nothing is known{ADVICE}"
        self._call_arguments(args, node, frame)
        return self.unknown_package(text, args.all(), node, frame)

    def log(self, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Write to a log: that is no part of a result, unless the program handles it."""
        own = filter(handles_logs, self.universe.classes)
        handler = next(own, None)
        if handler is not None:
            text = f"{called(node)} may run {handler.__name__}, which handles logs"
            return self.unknown(text, node, frame)
        self.run_operators(args.all(), node, frame)
        return self.holding(logging.Logger, NOTHING, node, frame)

    def _call_impure(
        self, obj: Any, why: str, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """Call what depends on, or touches, the world outside."""
        at = self.at(node, frame)
        self.found.effect("impure", f"{called(node)} {why}", at)
        self._call_arguments(args, node, frame)
        self.escape(args.all(), node, frame)
        if is_reflective(obj):
            self.found.writes_anything = self.found.writes_anything or at
            return LOST
        resource = resource_of(obj)
        if resource is not None:
            self.found.resources.setdefault(resource, at)
        return MADE

    def _call_changing(self, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Call what changes its first argument, as `heappush` and `setitem` do."""
        first = args.positional[0]
        self._call_arguments(args, node, frame, args.keywords.get("key", NOTHING))
        self.run_operators(args.all(), node, frame)
        for root in first:
            names = ("__setitem__", "__delitem__", *IN_PLACE)
            self.run_special(root, names, node, frame, Arguments(rest=args.all()))
        self.change(first, args.all(), node, frame)
        return self.elements(first, node, frame) | first | PLAIN

    def _call_pure(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        made = NOTHING
        if id(obj) not in _NEVER_CALLS:
            called = called_arguments(obj, args)
            made = self._call_arguments(args, node, frame, called)
        if obj is isinstance or obj is issubclass:
            classes = join(args.positional[1:]) | args.rest
            self.check_class(classes, args.all(), node, frame)
        self.run_operators(args.all(), node, frame)
        if module_of(obj) == "dataclasses" or obj is getattr(copy, "replace", None):
            self._take_apart(obj, args, node, frame)
        self.watch_call(obj, args, node, frame)
        return self.result_of(obj, args, made, node, frame)

    def _take_apart(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> None:
        """Read the fields of a dataclass, as `asdict` does; make one, as `replace`."""
        makes = getattr(obj, "__name__", "") == "replace"
        for root in self.operands(args.all()):
            classes = classes_of(root, self.universe)
            for cls in self.universe.classes if classes is None else classes:
                if not is_users_class(cls):
                    continue
                given = []
                for name in field_names(cls) or ():
                    value: Value = frozenset([root])
                    given.append(self.attribute(value, name, node, frame))
                if makes and given:
                    made: Value = frozenset([Known(cls, cls.__name__)])
                    self.call(made, Arguments(given), node, frame)

    def check_class(
        self, classes: Value, given: Value, node: ast.AST, frame: Frame
    ) -> None:
        """Run the hooks by which a class of the user's answers `isinstance`."""
        for root in self.operands(classes):
            checks = ("__instancecheck__", "__subclasscheck__")
            self.run_special(root, checks, node, frame)
            if isinstance(root, Known) and isinstance(root.obj, type):
                hook = function_in(class_attribute(root.obj, "__subclasshook__"))
                if isinstance(hook, types.FunctionType) and is_users_code(
                    hook.__code__
                ):
                    callee: Value = frozenset([Bound(root, hook)])
                    self.call(callee, Arguments(rest=given), node, frame)

    def opaque(self, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Return what a call that we must believe to be pure may give."""
        self._call_arguments(args, node, frame)
        fresh = self.fresh(node, frame)
        self.opaque_sites.add(fresh.site)
        held = self.reachable(args.all())
        if any(isinstance(root, Input) for root in held):
            held |= {Input(object)}  # it may look at attributes that are not fields
        self.heap.put(fresh.site, ELEMENTS, held)
        return frozenset([fresh]) | held

    def _call_special(  # noqa: C901, PLR0911, PLR0912 - one case for each kind
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value | None:
        """Call the builtins that do something to their arguments."""
        first = args.positional[0] if args.positional else args.rest
        if obj is functools.partial:
            return self._make_partial(args, node, frame)
        if obj is functools.cmp_to_key:
            return first
        generator = seeded_generator(obj, args)
        if generator is not None:
            return self.holding(generator, PLAIN, node, frame)
        if any(obj is each for each in _TABLES):
            return self._make_table(obj, args, node, frame)
        wrapped = generator_of_context(obj)
        if wrapped is not None:
            inner = self.existing(wrapped, called(node), node, frame)
            given = self.elements(self.call(inner, args, node, frame), node, frame)
            return self.holding(CONTEXTS[-1], given, node, frame)
        cases = implementations(obj)
        if cases is not None:
            return self._dispatch(obj, cases, args, node, frame)
        if any(obj is each for each in GETTERS):
            return self._make_getter(obj, args, node, frame)
        if obj is operator.is_ or obj is operator.is_not:
            second = join(args.positional[1:]) | args.rest
            self.watch_identity(first, second, node, frame)
            return frozenset([Plain(bool)])
        if obj is hash and _computes_hash(frame):
            self.run_operators(first, node, frame)
            return frozenset([Plain(int)])
        if obj is next:
            self.change(first, NOTHING, node, frame)
            return self.elements(first, node, frame) | join(args.positional[1:])
        if obj is type:
            if len(args.positional) != 1 or args.keywords or args.rest:
                return self.unknown(f"{called(node)} makes a class", node, frame)
            return frozenset([Shared("a class")])
        if "cls" in args.keywords and not isinstance(obj, types.FunctionType):
            return self.unknown(f"{called(node)} is given a class", node, frame)
        if obj is vars and len(args.positional) == 1:
            return self.variables_of(first, node, frame)
        if obj is collections.namedtuple:  # noqa: PYI024 - the user's call
            return self._make_record(args, node, frame)
        if obj is json.dumps and "cls" in args.keywords:
            return self._encode(args, node, frame)
        if obj is getattr or obj is setattr or obj is delattr or obj is hasattr:
            return self._call_getattr(obj, first, args, node, frame)
        if any(obj is each for each in vars(Operator).values()):
            return PLAIN
        return None

    def _make_record(
        self, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value | None:
        """Make a class with named fields, whose names are written out."""
        if node not in self._records:
            try:
                given = [ast.literal_eval(each) for each in node.args]  # type: ignore[attr-defined]
                if args.keywords or args.rest or len(given) != 2:  # noqa: PLR2004
                    return None
                made: Any = _RECORD(*given)
            except (AttributeError, IndexError, TypeError, ValueError):
                return None
            made.__module__ = str(frame.function.__globals__.get("__name__"))
            self._records[node] = made
        return frozenset([Known(self._records[node], shown(node))])

    def _encode(self, args: Arguments, node: ast.AST, frame: Frame) -> Value | None:
        """Write JSON with an encoder of the user's that has a `default` of its own."""
        for root in args.keywords["cls"]:
            cls = root.obj if isinstance(root, Known) else None
            if not isinstance(cls, type) or not issubclass(cls, json.JSONEncoder):
                return None
            own = [name for name in vars(cls) if name not in _OF_ANY_CLASS]
            if cls.__mro__[1] is not json.JSONEncoder or own not in ([], ["default"]):
                return None
            encoder = self.made_at((node, "encoder"), cls)
            given = Arguments(rest=self.operands(join(args.positional)) | PLAIN)
            self.run_special(encoder, ("default",), node, frame, given)
        others = {n: v for n, v in args.keywords.items() if n != "cls"}
        plain = Arguments(args.positional, others, args.rest)
        return self._call_library(json.dumps, plain, node, frame)

    def _make_table(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """Make what reads rows of text, or writes them."""
        file = args.positional[0] if args.positional else NOTHING
        self.run_operators(args.all(), node, frame)
        if obj in (csv.writer, csv.DictWriter):
            for root in file:
                self.run_special(root, ("write",), node, frame)
            kind = type(csv.writer(io.StringIO())) if obj is csv.writer else obj
            return self.holding(kind, file, node, frame)
        self.watch_iteration(file, node, frame)
        self.elements(file, node, frame)
        row = self.made_at((node, "row"), list if obj is csv.reader else dict)
        texts: Value = frozenset([Plain(str), Plain(type(None))])
        self.heap.put(row.site, ELEMENTS, texts | join(args.positional[1:]))
        kind = type(csv.reader(())) if obj is csv.reader else obj
        return self.holding(kind, frozenset([row]), node, frame)

    def _dispatch(
        self,
        obj: Any,
        cases: Mapping[type, Any],
        args: Arguments,
        node: ast.AST,
        frame: Frame,
    ) -> Value:
        """Call a function that chooses its implementation by the type of an argument."""
        self.found.touch(called(node), obj, self.at(node, frame))
        classes = frozenset(Known(each, each.__name__) for each in cases)
        self.check_class(classes, args.all(), node, frame)
        found = [NOTHING]
        for each in cases.values():
            inner = self.existing(each, called(node), node, frame)
            found.append(self.call(inner, args, node, frame))
        return join(found)

    def _make_partial(self, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Make a partial function; calling it is what counts."""
        fresh = self.fresh(node, frame, functools.partial)
        for index, value in enumerate(args.positional):
            self.heap.put(fresh.site, f"{index}", value)
        for name, value in args.keywords.items():
            self.heap.put(fresh.site, f"={name}", value)
        self.heap.put(fresh.site, "*", args.rest)
        return frozenset([fresh])

    def call_made_partial(
        self, root: Fresh, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """Call a partial function that was made here."""
        held = self.heap.fields(root.site)
        count = sum(name.isdigit() for name in held)
        first, *given = [held[f"{index}"] for index in range(count)] or [NOTHING]
        named = {name[1:]: held[name] for name in held if name.startswith("=")}
        rest = held.get("*", NOTHING)
        whole = Arguments(
            [*given, *args.positional], {**named, **args.keywords}, args.rest | rest
        )
        return self.call(first | rest, whole, node, frame)

    def _make_getter(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """Make an `itemgetter` or the like, whose arguments are written out."""
        given = node.args if isinstance(node, ast.Call) else []
        written = [each.value for each in given if isinstance(each, ast.Constant)]
        if obj is operator.itemgetter and args.positional:
            written = written[:1] or [0]  # whichever: any element may be meant
        elif not written or len(written) != len(given) or args.keywords:
            text = f"{shown(node)} takes an attribute by a computed name"
            return self.unknown(text, node, frame)
        if node not in self._getters:
            self._getters[node] = obj(*written)
        return frozenset([Known(self._getters[node], called(node))])

    def _call_getattr(
        self, obj: Any, first: Value, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        name = self._written_name(node, frame)
        if name is None:
            stored = join(args.positional[2:])
            if obj is setattr and self._store_anywhere(first, stored):
                return PLAIN
            if obj is getattr and (found := self._any_attribute(first, node, frame)):
                return found | join(args.positional[2:])
            text = f"{shown(node)} takes an attribute by a computed name"
            self.escape(first | args.all(), node, frame)
            self.found.rebind(ANY_NAME, None, self.at(node, frame))
            return self.unknown_package(text, NOTHING, node, frame)
        if obj is getattr or obj is hasattr:
            return self.attribute(first, name, node, frame) | join(args.positional[2:])
        self.assign_attribute(first, name, join(args.positional[2:]), node, frame)
        return PLAIN

    def _written_name(self, node: ast.AST, frame: Frame) -> str | None:
        """Return the name that `getattr` and the like are given, if it is a constant.

        A global or an attribute counts as one: who assigns it is looked for elsewhere.
        """
        given = node.args[1:2] if isinstance(node, ast.Call) else []
        name: Any = None
        match given:
            case [ast.Constant(value=name)]:
                pass
            case [ast.Name(id=variable)] if not self.is_local(variable, frame):
                name = frame.function.__globals__.get(variable)
            case [ast.Attribute(value=ast.Name(id=variable), attr=attr)]:
                match [*self.name(ast.Name(variable, ast.Load()), frame)]:
                    case [Known(obj=obj)] if is_instance_of_users(obj):
                        name = instance_attribute(obj, attr)
        return name if type(name) is str else None

    def _store_anywhere(self, value: Value, stored: Value) -> bool:
        """Store under a computed name, in objects that were made here; tell if it is."""
        made = [root for root in value if isinstance(root, Fresh)]
        if len(made) < len(value) or not all(_has_no_setters(r.type) for r in made):
            return False
        for root in made:
            self.changed_sites.add(root.site)
            self.heap.put(root.site, ELEMENTS, stored)
        return True

    def _any_attribute(self, value: Value, node: ast.AST, frame: Frame) -> Value:
        """Return what any attribute of instances of the user's may be, if all are."""
        found = [NOTHING]
        for root in value:
            cls = class_of(root)
            made = isinstance(root, Fresh)
            if cls is None or not (made or isinstance(root, Known)):
                return NOTHING
            names = {name for base in cls.__mro__[:-1] for name in vars(base)}
            if isinstance(root, Known):
                names |= set(getattr(root.obj, "__dict__", ()))
            public = sorted(name for name in names if not name.startswith("__"))
            found += [self.attribute(frozenset([root]), n, node, frame) for n in public]
            if isinstance(root, Fresh):
                found.append(self.heap.inside(root.site))
            found.append(PLAIN)
        return join(found)

    def _call_unbound(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """Call `str.strip(x)`: a method through its class."""
        if not args.positional:
            owner, rest = args.rest, []
        else:
            owner, rest = args.positional[0], args.positional[1:]
        if obj.__objclass__ is object and obj.__name__ in ("__init__", "__new__"):
            return PLAIN
        if obj is object.__repr__ or obj is object.__str__:
            text = f"{shown(node)} shows where an object lies in memory"
            self.found.effect("impure", text, self.at(node, frame))
        if is_scalar_type(obj.__objclass__):  # else the call would fail
            owner = PLAIN
        given = Arguments(rest, args.keywords, args.rest)
        return self.call(methods_of(owner, obj.__name__), given, node, frame)

    def _call_getter(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        _, names = obj.__reduce__()[:2]
        target = args.all()
        if isinstance(obj, operator.itemgetter):
            return self.elements(target, node, frame)
        if isinstance(obj, operator.methodcaller):
            if not isinstance(names[0], str):
                return self.unknown(f"calls {called(node)}", node, frame)
            callee = self.attribute(target, names[0], node, frame)
            return self.call(callee, Arguments(rest=PLAIN), node, frame)
        found = []
        for path in names:
            value = target
            for name in path.split("."):
                value = self.attribute(value, name, node, frame)
            found.append(value)
        return join(found)


def _has_no_setters(cls: Any) -> bool:
    """Tell whether assigning an attribute of a class of the user's runs no code."""
    if not is_users_class(cls) or class_attribute(cls, "__setattr__") is not (
        object.__setattr__
    ):
        return False
    entries = (raw for base in cls.__mro__[:-1] for raw in vars(base).values())
    return not any(
        hasattr(type(raw), "__set__")
        and not isinstance(raw, types.MemberDescriptorType | types.GetSetDescriptorType)
        for raw in entries
    )


def _computes_hash(frame: Frame) -> bool:
    """Tell whether this is the body of a `__hash__`, which no result shows.

    A set is never taken to be in the order of such hashes.
    """
    while frame.is_comprehension and frame.parent is not None:
        frame = frame.parent
    in_class = "." in getattr(frame.function, "__qualname__", "")
    return in_class and getattr(frame.node, "name", "") == "__hash__"


def methods_of(owner: Value, name: str) -> Value:
    return frozenset(Method(root, name) for root in owner)
