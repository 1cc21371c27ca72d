"""Which of its arguments a function of Python's calls."""

from __future__ import annotations

import bisect
import collections
import difflib
import functools
import heapq
import itertools
import json
import re
from typing import Any, Final

from anabranch.analysis.values import NOTHING, Arguments, Value, join

_POSITIONS: Final[dict[int, tuple[int, ...]]] = {
    id(function): positions
    for function, positions in (
        *((each, (0,)) for each in (map, filter, functools.reduce)),
        *((each, (0,)) for each in (itertools.takewhile, itertools.dropwhile)),
        *((each, (0,)) for each in (itertools.filterfalse, itertools.starmap)),
        *((each, (0,)) for each in (functools.cmp_to_key, collections.defaultdict)),
        *((each, (1,)) for each in (itertools.accumulate, itertools.groupby)),
        *((each, (1,)) for each in (re.sub, re.subn)),
        (difflib.SequenceMatcher, (0,)),
        *((each, (2,)) for each in (heapq.nlargest, heapq.nsmallest)),
    )
}
_HOOKS: Final = (
    *("object_hook", "object_pairs_hook", "parse_float", "parse_int"),
    *("parse_constant", "default"),
)
_KEYWORDS: Final[dict[int, tuple[str, ...]]] = {
    id(function): names
    for function, names in (
        *((each, ("key",)) for each in (sorted, min, max, itertools.groupby)),
        *((each, ("key",)) for each in (heapq.nlargest, heapq.nsmallest, heapq.merge)),
        *((each, ("key",)) for each in (bisect.bisect_left, bisect.bisect_right)),
        *((each, ("key",)) for each in (bisect.insort_left, bisect.insort_right)),
        *((each, ("repl",)) for each in (re.sub, re.subn)),
        *((each, _HOOKS) for each in (json.loads, json.dumps)),
        (itertools.accumulate, ("func",)),
        (collections.defaultdict, ("default_factory",)),
    )
}


def called_arguments(function: Any, args: Arguments) -> Value:
    """Return the arguments of a known function that it may call.

    >>> from anabranch.analysis.values import PLAIN
    >>> called_arguments(map, Arguments([PLAIN, NOTHING])) == PLAIN
    True
    """
    positions = _POSITIONS.get(id(function), ())
    if function is iter and len(args.positional) > 1:
        positions = (0,)
    found = [args.positional[i] for i in positions if i < len(args.positional)]
    names = _KEYWORDS.get(id(function), ())
    found += [args.keywords[name] for name in names if name in args.keywords]
    if positions and args.rest:
        found.append(args.rest)
    return join([NOTHING, *found])
