"""Calls with known behaviour: builtins, the standard library, NumPy, methods.

*Pure* means that the result depends on the arguments alone and no argument is changed.
A name that is on no list is not pure. A method is known by its owner's type if that is
known, else by name alone; so the lists of mutating names come first. More is known
where the object's class is known: all calls may share a `Struct`, a call may write to a
`StringIO` that it made itself, `predict` reads a fitted estimator and `fit` changes it.

It also lists the arguments that NumPy functions and methods write to: `out` may be
passed by position. The position is read from the signature if Python knows it; for
functions written in C it is in a table.
"""

from __future__ import annotations

import bisect
import builtins
import collections
import contextlib
import datetime as dt
import decimal
import difflib
import fractions
import functools
import heapq
import inspect
import itertools
import json
import logging
import random
import re
import struct
import sys
import time
import types
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

from anabranch.python.objects import is_users_class
from anabranch.python.values import (
    NOTHING,
    Arguments,
    Existing,
    Fresh,
    InputPart,
    Plain,
    Root,
    SharedPart,
    Value,
    join,
)

# Since Python 3.12 `sum` compensates for rounding; since 3.14 also for ints among
# floats.
SUM_NOTES_LOSSES: Final = sum((1e100, 1.0, -1e100)) == 1.0
SUM_NOTES_LOSSES_OF_INTS: Final = sum((1e100, 1, -1e100)) == 1.0


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BUILTINS = """abs all any ascii bin bool bytearray bytes callable chr complex
dict divmod enumerate filter float format frozenset hasattr hex int isinstance issubclass
iter len list map max min next oct ord pow range repr reversed round set
slice sorted str sum tuple type zip ArithmeticError AssertionError
AttributeError BaseException EOFError Exception IndexError KeyError LookupError
NotImplementedError OSError OverflowError RuntimeError StopIteration TypeError
UnicodeDecodeError UnicodeEncodeError UnicodeError ValueError ZeroDivisionError
BaseExceptionGroup ConnectionError ExceptionGroup FileNotFoundError FloatingPointError
ImportError NameError PermissionError RecursionError TimeoutError"""

# Every function and class of these modules is pure.
_PURE_MODULES = _words("""math cmath statistics base64 binascii fractions textwrap unicodedata html
    html.entities ipaddress urllib.parse struct zlib colorsys stringprep difflib
    keyword ntpath posixpath genericpath""")
# ... except these, which draw random numbers or look at the machine.
_EXCEPTIONS = _words("""statistics.NormalDist.samples posixpath.abspath posixpath.realpath
    posixpath.expanduser posixpath.expandvars posixpath.exists posixpath.lexists
    posixpath.ismount posixpath.relpath ntpath.abspath ntpath.realpath ntpath.relpath
    ntpath.expanduser ntpath.expandvars genericpath.exists genericpath.getatime
    genericpath.getctime genericpath.getmtime genericpath.getsize genericpath.isdir
    genericpath.isfile genericpath.samefile genericpath.sameopenfile binascii.Incomplete
    zlib.compressobj zlib.decompressobj ntpath.exists ntpath.isdir
    ntpath.isfile ntpath.lexists ntpath.ismount base64.encode base64.decode base64.main
    base64.test""")
_FUNCTIONS: Mapping[str, str] = {
    "json": "loads dumps JSONDecodeError",
    "_io": "StringIO BytesIO",
    "xml.etree.ElementTree": "XML fromstringlist tostring Element iselement",
    "gzip": "compress decompress",
    "hmac": "new digest",
    "codecs": "encode decode",
    "graphlib": "TopologicalSorter",
    "zoneinfo": "ZoneInfo",
    "time": "sleep strptime",
    "email.utils": "parseaddr formataddr parsedate parsedate_to_datetime",
    "bz2": "compress decompress",
    "lzma": "compress decompress",
    "shlex": "split quote join",
    "fnmatch": "fnmatch fnmatchcase filter translate",
    "ast": "literal_eval parse unparse dump walk iter_child_nodes iter_fields",
    "tomllib": "loads",
    "tomllib._parser": "loads",
    "pprint": "pformat",
    "http": "HTTPStatus HTTPMethod",
    "array": "array",
    "json.decoder": "JSONDecodeError",
    "json.encoder": "JSONEncoder.default",
    "re": "compile match fullmatch search sub subn split findall finditer escape error",
    "hashlib": """md5 sha1 sha224 sha256 sha384 sha512 sha3_224 sha3_256 sha3_384
        sha3_512 blake2b blake2s new __hash_new pbkdf2_hmac scrypt""",
    "_hashlib": """openssl_md5 openssl_sha1 openssl_sha224 openssl_sha256 openssl_sha384
        openssl_sha512 openssl_sha3_224 openssl_sha3_256 openssl_sha3_384
        openssl_sha3_512 new pbkdf2_hmac scrypt compare_digest""",
    "_blake2": "blake2b blake2s",
    "datetime": "datetime date time timedelta timezone",
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "calendar": "isleap leapdays monthrange timegm weekday",
    "itertools": """accumulate batched chain count cycle chain.from_iterable combinations
        combinations_with_replacement compress dropwhile filterfalse groupby islice
        pairwise permutations product starmap takewhile tee zip_longest repeat""",
    "decimal": "Decimal Context localcontext",
    "functools": "reduce partial cmp_to_key",
    "copy": "copy deepcopy replace",
    "dataclasses": "replace asdict astuple fields is_dataclass",
    "bisect": "bisect bisect_left bisect_right",
    "heapq": "nlargest nsmallest merge",
    "string": "capwords Template Formatter",
    "xml.sax.saxutils": "escape unescape quoteattr",
    "numpy.lib.stride_tricks": "sliding_window_view",
    "uuid": "UUID uuid3 uuid5",
    "enum": "Enum IntEnum",
    "contextlib": "suppress nullcontext",
    "types": "SimpleNamespace MappingProxyType",
    "typing": "cast",
    "pathlib": "Path PosixPath PurePath PurePosixPath PureWindowsPath",
    "numbers": "Number Real Integral Rational Complex",
    "operator": """abs add and_ attrgetter concat contains countOf eq floordiv ge getitem
        gt index indexOf inv invert is_ is_not itemgetter le length_hint lshift lt matmul
        methodcaller mod mul ne neg not_ or_ pos pow rshift sub truediv truth xor
        _compare_digest""",
    "numpy": """abs absolute add all allclose amax amin angle any append arange argmax
        argmin argsort argwhere around array array_equal array_split asarray ascontiguousarray
        atleast_1d atleast_2d atleast_3d average bincount bitwise_and bitwise_or block bool_
        broadcast_to ceil clip column_stack compress concatenate convolve copy corrcoef
        correlate cos count_nonzero cov cross cumprod cumsum deg2rad delete diag diagonal
        diff digitize divide dot dstack dtype ediff1d einsum equal exp expand_dims
        expm1 errstate eye fabs finfo flatnonzero flip fliplr flipud float16 float32 float64 floor
        frombuffer full full_like gradient greater histogram histogram2d hsplit hstack hypot
        identity iinfo in1d inner insert int16 int32 int64 int8 interp intersect1d invert
        isclose isfinite isin isinf isnan kron less lexsort linspace log log10 log1p log2
        logical_and logical_not logical_or logspace matmul max maximum mean median meshgrid
        min minimum mod moveaxis multiply nanmax nanmean nanmedian nanmin nanpercentile
        nanquantile nanstd nansum nanvar ndim nonzero ones ones_like outer pad
        percentile polyfit polyval power prod ptp quantile rad2deg ravel
        reciprocal remainder repeat reshape resize rint roll rot90 round searchsorted select
        setdiff1d shape sign sin sinc size sort sqrt square squeeze stack std subtract sum
        swapaxes take tan tanh tensordot tile trace transpose trapezoid tri tril triu trunc
        uint16 uint32 uint64 uint8 union1d unique unravel_index unwrap vander var vdot
        vsplit vstack where zeros zeros_like argpartition bartlett base_repr binary_repr
        blackman broadcast_arrays broadcast_shapes busday_count busday_offset can_cast choose
        complex128 complex64 datetime64 datetime_as_string extract fix geomspace hamming
        hanning histogram_bin_edges histogramdd i0 imag indices is_busday iscomplex
        iscomplexobj isneginf isposinf isreal isrealobj isscalar issubdtype ix_ kaiser
        nan_to_num nanargmax nanargmin nancumprod nancumsum nanprod packbits partition poly
        polyadd polyder polyint polymul polysub promote_types real result_type roots row_stack
        setxor1d str_ take_along_axis timedelta64 tril_indices trim_zeros triu_indices
        unpackbits""",
    "numpy.linalg": """cholesky det eig eigh inv lstsq norm pinv qr solve svd eigvals cond
        eigvalsh matrix_power matrix_rank multi_dot slogdet tensorinv tensorsolve""",
    "numpy.fft": """fft fftfreq fftshift ifft ifftshift irfft rfft rfftfreq fft2 ifft2 fftn
        ifftn rfftn irfftn rfft2 irfft2 hfft ihfft""",
}
# They change their first argument, so they are as safe as the list they are given.
_CHANGES_FIRST: Mapping[str, str] = {
    "heapq": "heappush heappop heapify heapreplace heappushpop",
    "_heapq": "heappush heappop heapify heapreplace heappushpop",
    "bisect": "insort insort_left insort_right",
    "_bisect": "insort insort_left insort_right",
    "operator": """iadd iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift
        isub itruediv ixor setitem delitem""",
    "_operator": "iadd iconcat imul setitem delitem",
    "numpy": "copyto put place putmask fill_diagonal put_along_axis",
    "_elementtree": "SubElement",
}
# They may return their argument or a view of its memory.
_VIEWS = _words(
    """asarray ascontiguousarray atleast_1d atleast_2d atleast_3d reshape ravel squeeze
    transpose swapaxes moveaxis broadcast_to diagonal array_split hsplit vsplit split
    expand_dims flip fliplr flipud rot90 frombuffer diag sliding_window_view ndarray take einsum diff histogram
    histogram2d real imag broadcast_arrays trim_zeros ix_ nan_to_num float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64
    bool_"""
)
# Public names of modules that C code reports under another name.
_PUBLIC = {
    "_operator": "operator",
    "_functools": "functools",
    "_collections": "collections",
    "_struct": "struct",
    "_bisect": "bisect",
    "_heapq": "heapq",
    "_json": "json",
    "_statistics": "statistics",
    "_decimal": "decimal",
    "_codecs": "codecs",
    "pathlib._local": "pathlib",
}
# What a known impure function depends on or does.
IMPURE_MODULES: Mapping[str, str] = {
    "random": "draws random numbers",
    "numpy.random": "draws random numbers",
    "secrets": "draws random numbers",
    "time": "reads a clock",
    "os": "touches the environment",
    "posix": "touches the environment",
    "nt": "touches the environment",
    "sys": "touches the interpreter",
    "io": "does input or output",
    "_io": "does input or output",
    "socket": "does input or output",
    "logging": "does input or output",
    "subprocess": "starts a process",
    "threading": "uses threads",
    "_thread": "uses threads",
    "importlib": "imports code",
    "warnings": "keeps a registry of warnings",
}
IMPURE_BUILTINS: Mapping[str, str] = {
    "print": "does output",
    "input": "does input",
    "open": "does input or output",
    "eval": "runs text as code",
    "exec": "runs text as code",
    "compile": "runs text as code",
    "__import__": "imports code",
    "globals": "reaches every global",
    "locals": "reaches variables by name",
    "vars": "reaches variables by name",
    "dir": "reaches variables by name",
    "id": "depends on where an object lies in memory",
    "hash": "differs from process to process",
    "breakpoint": "stops in a debugger",
    "memoryview": "gives a second name to memory",
    "delattr": "changes an attribute by name",
    "setattr": "changes an attribute by name",
}

CHANGING_METHODS = _words("""append appendleft extend extendleft insert remove pop popleft popitem clear sort
    reverse rotate update setdefault add discard difference_update intersection_update
    symmetric_difference_update subtract move_to_end fill put itemset partition setflags
    setfield __setitem__ __delitem__ __setattr__ __delattr__ __iadd__ __ior__ __init__
    __next__ __iand__ __isub__ __ixor__ __imul__ __setstate__ __dict__ feed""")
# They return text, bytes or a number, whatever the owner.
PLAIN_METHODS = _words("""capitalize casefold center encode decode endswith expandtabs find
isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable
isspace istitle isupper ljust lower lstrip rfind rindex rjust rstrip startswith strip
swapcase title upper zfill removeprefix removesuffix hexdigest digest isoformat strftime
timestamp total_seconds weekday isoweekday bit_length is_integer as_integer_ratio hex
toordinal tobytes item utcoffset expand issubset issuperset isdisjoint count __len__
__contains__ __str__ __repr__""")
_OTHER_METHODS = _words("""split rsplit splitlines partition rpartition join replace format
translate maketrans index format_map get keys values items copy union intersection
difference symmetric_difference fromkeys most_common elements total group groups groupdict
start end span match fullmatch search sub subn findall finditer date time astimezone
fromtimestamp strptime fromisoformat combine fromordinal quantize conjugate to_bytes
from_bytes fromhex timetuple isocalendar sum mean std var prod min max argmin argmax ptp
argsort astype reshape ravel flatten tolist transpose dot cumsum cumprod clip round any all
nonzero squeeze repeat take diagonal trace swapaxes searchsorted compress choose conj
_replace _asdict _make replace from_iterable sqrt ln log10 exp is_nan is_finite to_integral
to_integral_value normalize copy_abs sign unpack unpack_from pack iter_unpack with_name
with_suffix joinpath relative_to is_relative_to as_posix __getitem__
__eq__ __lt__ __le__ __gt__ __ge__ __iter__ __add__ __sub__ __mul__
limit_denominator hosts subnets supernet substitute safe_substitute new_child to_dict
to_list to_numpy""")
PURE_METHODS = PLAIN_METHODS | (_OTHER_METHODS - CHANGING_METHODS)
# Classes of which no method changes anything, apart from those that read a clock.
VALUES_ONLY: Final[frozenset[type]] = frozenset(
    [
        *(int, float, bool, complex, str, bytes, range, uuid.UUID, decimal.Decimal),
        *(dt.date, dt.datetime, dt.time, dt.timedelta, dt.timezone, fractions.Fraction),
    ]
)
CLOCKS: Final = ("now", "today", "utcnow")
# What a number, a text or the like does is known by its name.
VALUE_METHODS: Final = frozenset(
    name
    for kind in VALUES_ONLY
    for name in dir(kind)
    if not name.startswith("__") and name not in CLOCKS
)


@functools.lru_cache(maxsize=1)
def _pure_builtins() -> frozenset[int]:
    return frozenset(id(getattr(builtins, name)) for name in _words(_BUILTINS))


@functools.lru_cache(maxsize=4096)
def _names(module: str, *, changing: bool) -> frozenset[str]:
    table = _CHANGES_FIRST if changing else _FUNCTIONS
    return _words(table.get(module, ""))


def module_of(function: Any) -> str:
    """Return the public name of the module that a function or class belongs to."""
    module = getattr(function, "__module__", None)
    if not isinstance(module, str):
        is_ufunc = type(function).__name__ == "ufunc"
        module = "numpy" if is_ufunc else _home_of(function)
    return _PUBLIC.get(module, module)


def _home_of(function: Any) -> str:
    """Return the loaded module of a C function that does not name it, as in OpenCV.

    >>> import codecs
    >>> codecs.strict_errors.__module__, _home_of(codecs.strict_errors)
    (None, 'codecs')
    """
    if not inspect.isbuiltin(function) or function.__self__ is not None:
        return ""
    homes = [
        name
        for name, module in list(sys.modules.items())
        if module is not None and vars(module).get(function.__name__) is function
    ]
    return min(homes, key=len, default="")


def is_pure(function: Any) -> bool:
    """Tell whether a function or class of a library is known to be pure.

    >>> import math, random
    >>> is_pure(math.sqrt), is_pure(sorted), is_pure(random.random)
    (True, True, False)
    """
    if id(function) in _pure_builtins():
        return True
    module, name = module_of(function), _name_within(function)
    if f"{module}.{name}" in _EXCEPTIONS:
        return False
    listed = module in _PURE_MODULES or name in _names(module, changing=False)
    listed = listed or (module == "numpy" and isinstance(function, np.ufunc))
    return listed and _is_really(function, module, name)


# The position of the time argument; without it they read the clock.
_OF_A_TIME: Final[Mapping[Any, int]] = {
    **dict.fromkeys((time.gmtime, time.localtime, time.ctime, time.asctime), 0),
    time.mktime: 0,
    time.strftime: 1,
}


def is_of_given_time(function: Any, args: Arguments) -> bool:
    """Tell whether a function of `time` is given a time, so that it reads no clock.

    >>> is_of_given_time(time.gmtime, Arguments([frozenset([Plain(int)])]))
    True
    >>> is_of_given_time(time.gmtime, Arguments())
    False
    """
    if not isinstance(function, BuiltinFunctionType) or function not in _OF_A_TIME:
        return False
    given = args.positional[_OF_A_TIME[function] :][:1]
    return bool(given) and all(
        isinstance(root, Fresh)
        or (isinstance(root, Plain) and root.type in (int, float))
        for root in given[0]
    )


def changes_first_argument(function: Any) -> bool:
    """Tell whether a function changes its first argument and nothing else.

    >>> import heapq
    >>> changes_first_argument(heapq.heappush)
    True
    """
    module, name = module_of(function), _name_within(function)
    listed = name in _names(module, changing=True)
    return listed and _is_really(function, module, name)


def gives_view(function: Any) -> bool:
    """Tell whether a NumPy function may return its argument or a view of it.

    >>> import numpy as np
    >>> gives_view(np.asarray), gives_view(np.sqrt)
    (True, False)
    """
    return getattr(function, "__name__", "") in _VIEWS


def why_impure(function: Any) -> str | None:
    """Return the effect of an impure function of the standard library, or None.

    >>> import random
    >>> why_impure(random.gauss), why_impure(print), why_impure(len)
    ('draws random numbers', 'does output', None)
    """
    name = getattr(function, "__name__", "")
    if getattr(builtins, name, None) is function:
        return IMPURE_BUILTINS.get(name)
    module = module_of(function) or type(getattr(function, "__self__", None)).__module__
    return _impurity_of(module)


# What they do by name may affect anything.
_REFLECTIVE = ("eval", "exec", "compile", "__import__", "globals", "locals", "vars")
_REFLECTIVE_MODULES = ("importlib", "sys", "gc", "inspect", "ctypes", "runpy")
# Resources that two functions share without being given them.
_RESOURCES = {"random": "random numbers", "numpy.random": "random numbers of NumPy"}


def is_reflective(function: Any) -> bool:
    """Tell whether a function reaches names and objects beyond its arguments.

    >>> is_reflective(exec), is_reflective(print)
    (True, False)
    """
    name = getattr(function, "__name__", "")
    if isinstance(function, ModuleType):
        return name in _REFLECTIVE_MODULES
    if getattr(builtins, name, None) is function:
        return name in _REFLECTIVE
    return module_of(function).partition(".")[0] in _REFLECTIVE_MODULES


# They change settings that all later code sees.
_SETTERS = {
    "decimal": ("getcontext", "setcontext"),
    "numpy": ("seterr", "seterrcall", "set_printoptions", "setbufsize"),
    "warnings": ("simplefilter", "filterwarnings", "resetwarnings"),
    "locale": ("setlocale",),
    "sys": ("setrecursionlimit", "set_int_max_str_digits"),
    "time": ("tzset",),
    "_csv": ("register_dialect", "unregister_dialect", "field_size_limit"),
    "pandas": ("set_option", "reset_option", "set_eng_float_format"),
}


def changes_settings(function: Any) -> bool:
    """Tell whether a function exposes or changes settings that affect other code.

    >>> import decimal
    >>> changes_settings(decimal.getcontext), changes_settings(decimal.localcontext)
    (True, False)
    """
    names = _SETTERS.get(module_of(function).partition(".")[0], ())
    return getattr(function, "__name__", "") in names


def resource_of(function: Any) -> str | None:
    """Return the resource that an impure function shares with others, or None.

    >>> import random
    >>> resource_of(random.gauss), resource_of(print)
    ('random numbers', None)
    """
    if isinstance(function, type) or _name_within(function) == "default_rng":
        return None  # a private random generator
    module = module_of(function) or type(getattr(function, "__self__", None)).__module__
    while module:
        if module in _RESOURCES:
            return _RESOURCES[module]
        module = module.rpartition(".")[0]
    return None


def why_impure_module(module: ModuleType) -> str | None:
    """Return the effect of changing the tables of a module, or None."""
    return _impurity_of(module.__name__)


def _impurity_of(module: str) -> str | None:
    while module:
        if module in IMPURE_MODULES:
            return IMPURE_MODULES[module]
        module = module.rpartition(".")[0]
    return None


def _name_within(function: Any) -> str:
    return str(getattr(function, "__qualname__", getattr(function, "__name__", "")))


def _is_really(function: Any, module: str, name: str) -> bool:
    """Tell whether a name in a module still refers to this object."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is function


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


_LOOKING_AT_RESULTS: Final = frozenset(
    map(
        id,
        (
            *(sorted, min, max, filter, iter, itertools.groupby, itertools.takewhile),
            *(itertools.dropwhile, itertools.filterfalse, heapq.nlargest),
            *(heapq.nsmallest, heapq.merge, bisect.bisect_left, bisect.bisect_right),
        ),
    )
)


def looks_at_results(function: Any) -> bool:
    """Tell whether a function compares, or tests the truth of, what its callees return.

    >>> looks_at_results(sorted), looks_at_results(map)
    (True, False)
    """
    return id(function) in _LOOKING_AT_RESULTS


def find_called_arguments(function: Any, args: Arguments) -> Value:
    """Return the arguments of a known function that it may call.

    >>> from anabranch.python.values import PLAIN
    >>> find_called_arguments(map, Arguments([PLAIN, NOTHING])) == PLAIN
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


# Positions of `out` where a function has no signature, and in methods of arrays.
_WRITING_FUNCTIONS: Final = {"dot": 2, "concatenate": 2, "matmul": 2, "bitwise_not": 1}
_METHODS: Final = {
    **dict.fromkeys(("sum", "prod", "cumsum", "cumprod", "mean", "std", "var"), 2),
    **dict.fromkeys(("min", "max", "any", "all", "argmin", "argmax", "ptp"), 1),
    **dict.fromkeys(("round", "dot", "choose"), 1),
    **dict.fromkeys(("clip", "take", "compress"), 2),
    "trace": 4,
}


def arguments_written_by(function: Any, args: Arguments) -> Value:
    """Return the arguments that a function may write its result to.

    >>> given = [frozenset([Plain(kind)]) for kind in (int, float, str)]
    >>> arguments_written_by(np.dot, Arguments(given)) == given[2]
    True
    """
    found = args.keywords.get("out", NOTHING)
    if function is struct.pack_into:
        return join(args.positional[1:2]) | args.rest
    if isinstance(function, np.ufunc):
        return found | join(args.positional[function.nin :])
    if not module_of(function).startswith("numpy"):
        return found
    names = _parameters(function)
    if function is np.nan_to_num and (args.keywords or len(args.positional) > 1):
        found |= join(args.positional[:1])  # copy=False
    for index, value in enumerate(args.positional):
        if index < len(names) and names[index] == "out":
            found |= value
        if names[index : index + 1] == ("overwrite_input",):
            found |= join(args.positional[:1])
    if "overwrite_input" in args.keywords:
        found |= join(args.positional[:1])
    return found | (_objects_in(args.rest) if "out" in names else NOTHING)


def arguments_written_by_method(name: str, args: Arguments) -> Value:
    """Return the arguments that an array method may write its result to.

    >>> given = [frozenset([Plain(kind)]) for kind in (int, str)]
    >>> arguments_written_by_method("max", Arguments(given)) == given[1]
    True
    """
    found = args.keywords.get("out", NOTHING)
    if name not in _METHODS:
        return found
    by_position = args.positional[_METHODS[name] : _METHODS[name] + 1]
    return found | join(by_position) | _objects_in(args.rest)


def leaves_memory_unset(function: Any, args: Arguments) -> bool:
    """Tell whether part of the result is uninitialised memory."""
    is_ufunc = isinstance(function, np.ufunc)
    without_out = len(args.positional) <= getattr(function, "nin", 0)
    return (
        is_ufunc
        and without_out
        and "where" in args.keywords
        and "out" not in args.keywords
    )


def _objects_in(value: Value) -> Value:
    return frozenset(root for root in value if not isinstance(root, Plain))


@functools.lru_cache(maxsize=1024)
def _parameters(function: Any) -> tuple[str, ...]:
    """Return the names of a function's positional parameters, as far as known."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        position = _WRITING_FUNCTIONS.get(getattr(function, "__name__", ""))
        return () if position is None else ("",) * position + ("out",)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(n for n, each in signature.parameters.items() if each.kind in kinds)


class Facts(NamedTuple):
    """The effects of a class's methods on the object and on their arguments.

    `gives`: methods that return numbers, text and the like; `parts`: those that return
    contents of the object or something derived from them; `changes`: those that change
    the object or, with `through`, write text into its contents; `takes`: those that
    change their arguments. An object that `can_be_shared` may outlive the call. If
    `open`, methods on no list are harmless, apart from those in `refused`.
    """

    gives: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    takes: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    can_be_shared: bool = False
    holds: bool = True
    through: bool = False
    open: bool = False

    def knows(self, name: str) -> bool:
        """Tell whether a method is known."""
        listed = self.gives | self.parts | self.changes | self.takes
        return name in listed or (self.open and name not in self.refused)


_STREAM: Final = Facts(
    gives=_words("getvalue getbuffer tell readable writable seekable"),
    changes=_words(
        "write writelines read readline readlines seek truncate close flush"
    ),
)
_RANDOM: Final = Facts(
    changes=_words("""random randint randrange choice choices sample uniform gauss seed
        normalvariate getrandbits triangular betavariate expovariate gammavariate
        lognormvariate paretovariate vonmisesvariate weibullvariate randbytes binomialvariate
        integers normal standard_normal permutation exponential poisson binomial bytes beta
        gamma geometric laplace logistic lognormal multinomial multivariate_normal rand randn
        random_sample rayleigh chisquare dirichlet f gumbel hypergeometric pareto permuted
        power standard_cauchy standard_exponential standard_gamma standard_t triangular
        vonmises wald weibull zipf"""),
    takes=_words("shuffle"),
)
_LOGGER: Final = Facts(
    gives=_words("""debug info warning warn error exception critical fatal log isEnabledFor
        getEffectiveLevel getChild hasHandlers"""),
    can_be_shared=True,
    holds=False,
)
_CLASSES: Final[Mapping[str, Facts]] = {
    "_struct.Struct": Facts(
        gives=_words("pack size format"),
        parts=_words("unpack unpack_from iter_unpack"),
        takes=_words("pack_into"),
        can_be_shared=True,
        holds=False,
    ),
    "_io.StringIO": _STREAM,
    "_io.BytesIO": _STREAM,
    "_csv.reader": Facts(parts=_words("line_num dialect")),
    "_csv.writer": Facts(
        gives=_words("dialect"),
        changes=_words("writerow writerows"),
        through=True,
    ),
    "csv.DictReader": Facts(parts=_words("fieldnames line_num")),
    "csv.DictWriter": Facts(
        gives=_words("fieldnames"),
        changes=_words("writerow writerows writeheader"),
        through=True,
    ),
    "xml.etree.ElementTree.Element": Facts(
        gives=_words("findtext get keys"),
        parts=_words("find findall iter iterfind itertext items"),
        changes=_words("append clear extend insert remove set"),
        can_be_shared=True,
    ),
    "random.Random": _RANDOM,
    "numpy.random._generator.Generator": _RANDOM,
    "numpy.random.mtrand.RandomState": _RANDOM,
    "logging.Logger": _LOGGER,
    "logging.RootLogger": _LOGGER,
    "difflib.SequenceMatcher": Facts(
        gives=_words("ratio quick_ratio real_quick_ratio"),
        parts=_words("""get_matching_blocks get_opcodes find_longest_match
            get_grouped_opcodes"""),
        changes=_words("set_seqs set_seq1 set_seq2"),
    ),
    "graphlib.TopologicalSorter": Facts(
        gives=_words("is_active"),
        parts=_words("static_order get_ready"),
        changes=_words("add prepare done"),
    ),
    "difflib.Differ": Facts(parts=_words("compare")),
    "string.Formatter": Facts(parts=_words("parse"), can_be_shared=True, holds=False),
    "textwrap.TextWrapper": Facts(
        gives=_words("fill"), parts=_words("wrap"), can_be_shared=True, holds=False
    ),
    **dict.fromkeys(
        ("calendar._localized_month", "calendar._localized_day"),
        Facts(can_be_shared=True, holds=False),
    ),
    "string.Template": Facts(
        gives=_words("substitute safe_substitute is_valid get_identifiers"),
        can_be_shared=True,
        holds=False,
    ),
    "statistics.NormalDist": Facts(
        gives=_words("cdf pdf inv_cdf mean median mode stdev variance zscore overlap"),
        parts=_words("quantiles"),
        can_be_shared=True,
        holds=False,
    ),
}
_PANDAS: Final = Facts(
    changes=_words("insert pop update isetitem"),
    refused=_words("""to_csv to_excel to_parquet to_sql to_pickle to_feather to_hdf
        to_clipboard to_stata to_orc to_gbq to_xml to_html to_latex to_markdown eval query
        plot hist boxplot sample style now today utcnow"""),
    can_be_shared=True,
    open=True,
)
_ESTIMATOR: Final = Facts(
    parts=_words("""predict predict_proba predict_log_proba transform decision_function
        score inverse_transform score_samples get_params get_feature_names_out apply"""),
    changes=_words("fit fit_transform fit_predict partial_fit set_params"),
    can_be_shared=True,
    holds=False,
)
_PACKAGES: Final[Mapping[str, Facts]] = {"pandas": _PANDAS, "sklearn": _ESTIMATOR}
_PANDAS_FUNCTIONS: Final = _words("""Series DataFrame Index Timestamp Timedelta Period
    DatetimeIndex TimedeltaIndex MultiIndex Categorical Interval to_datetime to_numeric
    to_timedelta concat merge merge_asof isna isnull notna notnull date_range cut qcut
    get_dummies crosstab pivot_table melt unique factorize json_normalize timedelta_range
    period_range bdate_range DateOffset""")


def facts_of(cls: type) -> Facts | None:
    """Return the facts about the methods of a class, or None.

    >>> import struct
    >>> facts_of(struct.Struct).can_be_shared, facts_of(list)
    (True, None)
    """
    return None if is_users_class(cls) else _facts_of(cls)


@functools.cache
def _facts_of(cls: Any) -> Facts | None:
    package = cls.__module__.partition(".")[0]
    listed = _CLASSES.get(f"{cls.__module__}.{cls.__qualname__}")
    return listed or _PACKAGES.get(package)


def can_be_shared(cls: type) -> bool:
    """Tell whether objects of a class may outlive the call: their methods are known."""
    facts = facts_of(cls)
    return facts is not None and facts.can_be_shared


def facts_about(root: Root) -> Facts | None:
    """Return the facts about the methods of a value, or None."""
    match root:
        case Fresh(_, type() as kind) | InputPart(type() as kind):
            return facts_of(kind)
        case Existing(obj=obj) if not isinstance(obj, type):
            return facts_of(type(obj))
        case SharedPart(kinds=kinds) if kinds is not None and len(kinds) == 1:
            return facts_of(*kinds)
    return None


def is_function_of_pandas(function: Any) -> bool:
    """Tell whether a pandas function or class leaves its arguments unchanged."""
    name = getattr(function, "__name__", "")
    if name not in _PANDAS_FUNCTIONS:
        return False
    return getattr(sys.modules.get("pandas"), name, None) is function


_SEEDED: Final[dict[int, type]] = {
    id(random.Random): random.Random,
    id(np.random.default_rng): np.random.Generator,
    id(np.random.RandomState): np.random.RandomState,
}
_SEEDS: Final = (int, str, bytes, float, bool)


def find_seeded_generator(function: Any, args: Arguments) -> type | None:
    """Return the class of the random generator that a call makes from a seed, or None.

    >>> seed = frozenset([Plain(int)])
    >>> find_seeded_generator(random.Random, Arguments([seed])).__name__
    'Random'
    >>> find_seeded_generator(random.Random, Arguments()) is None
    True
    """
    kind = _SEEDED.get(id(function))
    seed: Value = (
        args.positional[0]
        if args.positional
        else args.keywords.get("seed", frozenset())
    )
    if kind is None or not seed or args.rest:
        return None
    sure = all(isinstance(root, Plain) and root.type in _SEEDS for root in seed)
    return kind if sure else None


_LOGGING: Final = _words(
    "debug info warning warn error exception critical fatal log getLogger"
)
_HANDLING: Final = (
    *(logging.Filterer, logging.Formatter, logging.LoggerAdapter, logging.LogRecord),
    logging.Filter,
)


def is_logging(function: Any) -> bool:
    """Tell whether a function writes to a log or returns a logger."""
    name = getattr(function, "__name__", "")
    return name in _LOGGING and getattr(logging, name) is function


def find_log_parts() -> Iterator[Any]:
    """Yield all that may run when something is logged, as it is set up now."""
    named = logging.root.manager.loggerDict.values()
    yield from (logging.getLogRecordFactory(), logging.root.manager)
    loggers = (one for one in [*named] if isinstance(one, logging.Logger))
    for logger in (logging.root, *loggers):
        yield from (logger, *logger.filters)
        for handler in logger.handlers:
            yield from (handler, *handler.filters, *vars(handler).values())


def handles_logs(cls: type) -> bool:
    """Tell whether code of a class may run when something is logged."""
    return issubclass(cls, _HANDLING)


@functools.singledispatch
def _dispatching(argument: Any) -> None:
    """Represent any function with implementations by type."""


@contextlib.contextmanager
def _managing() -> Any:
    """Represent any context manager written as a generator."""
    yield


_DISPATCHING: Final = _dispatching.__code__  # type: ignore[attr-defined]
_MANAGING: Final = _managing.__code__
CONTEXTS: Final[tuple[type, ...]] = (
    *(contextlib.suppress, contextlib.nullcontext, type(decimal.localcontext())),
    np.errstate,
    contextlib._GeneratorContextManager,  # noqa: SLF001 - the class of such a context
)


def implementations(function: Any) -> Mapping[type, Any] | None:
    """Return the implementations of a `singledispatch` function by type, or None.

    >>> implementations(_dispatching)[object].__name__, implementations(len)
    ('_dispatching', None)
    """
    if not isinstance(function, types.FunctionType):
        return None
    if function.__code__ is not _DISPATCHING:
        return None
    return function.registry  # type: ignore[attr-defined,no-any-return]


def generator_of_context(function: Any) -> Any:
    """Return the generator function wrapped by `contextmanager`, or None."""
    if isinstance(function, types.FunctionType) and function.__code__ is _MANAGING:
        return function.__wrapped__  # type: ignore[attr-defined]
    return None


PARSE_XML: Final = ET.XML
ELEMENT: Final = ET.Element
