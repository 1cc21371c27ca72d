"""What a pure function of Python's or NumPy's gives, by what it is given."""

from __future__ import annotations

import ast
import collections
import hashlib
import heapq
import itertools
import json
import re
from typing import Any

import numpy as np

from anabranch.analysis.classes import classes_of
from anabranch.analysis.effects import Frame
from anabranch.analysis.known import gives_view, module_of
from anabranch.analysis.methods import Methods, is_callable
from anabranch.analysis.objects import is_scalar_type, is_users_class
from anabranch.analysis.values import (
    ELEMENTS,
    NOTHING,
    PLAIN,
    Arguments,
    Known,
    LibraryObject,
    Plain,
    Value,
    join,
)

_PLAIN_RESULTS: dict[int, type | None] = {
    **{id(each): each for each in (int, float, complex, bool, str, bytes)},
    **{id(each): str for each in (repr, ascii, format, chr, bin, oct, hex)},
    **{id(each): int for each in (len, ord)},
    **{id(each): bool for each in (isinstance, issubclass, callable, all, any)},
    **{id(each): str for each in (json.dumps, re.sub, re.escape)},
    id(re.compile): re.Pattern,
}
_KINDS: dict[int, type] = {
    **{id(each): list for each in (heapq.nlargest, heapq.nsmallest)},
    **{id(each): list for each in (sorted, re.findall, re.split, re.finditer)},
    id(iter): type(iter([])),
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
            collections.Counter,
        ),
    )
)
_PAIRING = frozenset(map(id, (zip, enumerate, itertools.pairwise, itertools.product)))
_NUMERIC = frozenset(map(id, (sum, abs, round, pow)))
_NUMERIC_MODULES = ("math", "cmath", "statistics")
_FRESH_MODULES = frozenset(
    [
        *("math", "json", "re", "statistics", "collections", "struct", "itertools"),
        *("contextlib", "hashlib", "_hashlib"),
    ]
)
_GIVES_FRESH = frozenset(
    map(id, (dict, map, zip, enumerate, range, slice, sum, abs, round, divmod, pow))
)
_NEVER_KEEPS = frozenset(map(id, (map, filter, sorted, sum, collections.defaultdict)))


class Results(Methods):
    """The part of the interpreter that knows what pure functions give."""

    def result_of(
        self, obj: Any, args: Arguments, made: Value, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what a pure function gives; `made` is what functions among them do."""
        if id(obj) in _PLAIN_RESULTS:
            return frozenset([Plain(_PLAIN_RESULTS[id(obj)])])
        if is_scalar_type(obj):
            return frozenset([Plain(obj)])
        if obj is min or obj is max:
            return self._extreme(args, node, frame)
        if obj is json.loads and not args.keywords:
            return self._document(node)
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
            held = self.taken_in(args, node, frame) | made
        elif is_numpy and _is_numeric(args.keywords.get("dtype", NOTHING)):
            held = PLAIN | (given if gives_view(obj) else NOTHING)
        else:
            held = given | made | self.inside(given | made)
        self.heap.put(fresh.site, ELEMENTS, held)
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

    def _document(self, node: ast.AST) -> Value:
        """Return a parsed JSON text: lists and dictionaries, all the way down."""
        made = frozenset([self.made_at((node, kind), kind) for kind in (dict, list)])
        for root in made:
            self.heap.put(root.site, ELEMENTS, made | PLAIN)
        return made | PLAIN


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
