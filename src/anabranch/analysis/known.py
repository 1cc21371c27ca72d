"""Calls whose behaviour is known: the builtins, the standard library, NumPy, methods.

*Pure* means: the result depends on the arguments alone, and no argument is changed. A
name that is on no list is not pure. Methods are known by type where the type is known
and by name alone where it is not; for that the lists of changing names come first.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BUILTINS = """abs all any ascii bin bool bytearray bytes callable chr complex
dict divmod enumerate filter float format frozenset hasattr hex int isinstance issubclass
iter len list map max min next oct ord pow range repr reversed round set
slice sorted str sum tuple type zip ArithmeticError AssertionError
AttributeError BaseException EOFError Exception IndexError KeyError LookupError
NotImplementedError OSError OverflowError RuntimeError StopIteration TypeError
UnicodeDecodeError UnicodeError ValueError ZeroDivisionError"""

# Whole modules: every function and class of theirs is pure.
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
    struct.pack_into zlib.compressobj zlib.decompressobj ntpath.exists ntpath.isdir
    ntpath.isfile ntpath.lexists ntpath.ismount base64.encode base64.decode base64.main
    base64.test""")
_FUNCTIONS: Mapping[str, str] = {
    "json": "loads dumps JSONDecodeError",
    "json.decoder": "JSONDecodeError",
    "re": "compile match fullmatch search sub subn split findall finditer escape error",
    "hashlib": """md5 sha1 sha224 sha256 sha384 sha512 sha3_224 sha3_256 sha3_384
        sha3_512 blake2b blake2s new""",
    "_hashlib": """openssl_md5 openssl_sha1 openssl_sha224 openssl_sha256 openssl_sha384
        openssl_sha512 openssl_sha3_224 openssl_sha3_256 openssl_sha3_384
        openssl_sha3_512 new""",
    "_blake2": "blake2b blake2s",
    "datetime": "datetime date time timedelta timezone",
    "collections": "Counter OrderedDict defaultdict deque namedtuple",
    "itertools": """accumulate batched chain chain.from_iterable combinations
        combinations_with_replacement compress dropwhile filterfalse groupby islice
        pairwise permutations product starmap takewhile tee zip_longest repeat""",
    "decimal": "Decimal",
    "functools": "reduce partial cmp_to_key",
    "copy": "copy deepcopy replace",
    "dataclasses": "replace asdict astuple fields is_dataclass",
    "bisect": "bisect bisect_left bisect_right",
    "heapq": "nlargest nsmallest merge",
    "string": "capwords Template",
    "uuid": "UUID uuid3 uuid5",
    "enum": "Enum IntEnum",
    "contextlib": "suppress nullcontext",
    "types": "SimpleNamespace MappingProxyType",
    "typing": "cast",
    "pathlib": "PurePath PurePosixPath PureWindowsPath",
    "numbers": "Number Real Integral Rational Complex",
    "operator": """abs add and_ attrgetter concat contains countOf eq floordiv ge getitem
        gt index indexOf inv invert is_ is_not itemgetter le length_hint lshift lt matmul
        methodcaller mod mul ne neg not_ or_ pos pow rshift sub truediv truth xor""",
    "numpy": """abs absolute add all allclose amax amin angle any append arange argmax
        argmin argsort argwhere around array array_equal array_split asarray ascontiguousarray
        atleast_1d atleast_2d atleast_3d average bincount bitwise_and bitwise_or block bool_
        broadcast_to ceil clip column_stack compress concatenate convolve copy corrcoef
        correlate cos count_nonzero cov cross cumprod cumsum deg2rad delete diag diagonal
        diff digitize divide dot dstack dtype ediff1d einsum empty_like equal exp expand_dims
        expm1 eye fabs finfo flatnonzero flip fliplr flipud float16 float32 float64 floor
        frombuffer full full_like gradient greater histogram histogram2d hsplit hstack hypot
        identity iinfo in1d inner insert int16 int32 int64 int8 interp intersect1d invert
        isclose isfinite isin isinf isnan kron less lexsort linspace log log10 log1p log2
        logical_and logical_not logical_or logspace matmul max maximum mean median meshgrid
        min minimum mod moveaxis multiply nanmax nanmean nanmedian nanmin nanpercentile
        nanquantile nanstd nansum nanvar ndarray ndim nonzero ones ones_like outer pad
        percentile polyfit polyval power prod ptp quantile rad2deg ravel
        reciprocal remainder repeat reshape resize rint roll rot90 round searchsorted select
        setdiff1d shape sign sin sinc size sort sqrt square squeeze stack std subtract sum
        swapaxes take tan tanh tensordot tile trace transpose trapezoid tri tril triu trunc
        uint16 uint32 uint64 uint8 union1d unique unravel_index unwrap vander var vdot
        vsplit vstack where zeros zeros_like""",
    "numpy.linalg": "cholesky det eig eigh inv lstsq norm pinv qr solve svd eigvals",
    "numpy.fft": "fft fftfreq fftshift ifft ifftshift irfft rfft rfftfreq fft2 ifft2",
}
# First argument is changed, so they are as good as the list that they are given.
_CHANGES_FIRST: Mapping[str, str] = {
    "heapq": "heappush heappop heapify heapreplace heappushpop",
    "_heapq": "heappush heappop heapify heapreplace heappushpop",
    "bisect": "insort insort_left insort_right",
    "_bisect": "insort insort_left insort_right",
    "operator": """iadd iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift
        isub itruediv ixor setitem delitem""",
    "_operator": "iadd iconcat imul setitem delitem",
    "numpy": "copyto put place putmask fill_diagonal put_along_axis",
}
# These may give their argument itself, or a second name for its memory.
_VIEWS = _words(
    """asarray ascontiguousarray atleast_1d atleast_2d atleast_3d reshape ravel squeeze
    transpose swapaxes moveaxis broadcast_to diagonal array_split hsplit vsplit split
    expand_dims flip fliplr flipud rot90 frombuffer diag ndarray take"""
)
# Modules that C code reports as its own, with the public name.
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
}
# What a function that is known to be impure depends on or does.
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
# What these give is text, bytes or a number, whoever is asked.
PLAIN_METHODS = _words("""capitalize casefold center encode decode endswith expandtabs find
isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable
isspace istitle isupper ljust lower lstrip rfind rindex rjust rstrip startswith strip
swapcase title upper zfill removeprefix removesuffix hexdigest digest isoformat strftime
timestamp total_seconds weekday isoweekday bit_length is_integer as_integer_ratio hex
toordinal tobytes item utcoffset issubset issuperset isdisjoint count""")
_OTHER_METHODS = _words("""split rsplit splitlines partition rpartition join replace format
translate maketrans index format_map get keys values items copy union intersection
difference symmetric_difference fromkeys most_common elements total group groups groupdict
start end span match fullmatch search sub subn findall finditer date time astimezone
fromtimestamp strptime fromisoformat combine fromordinal quantize conjugate to_bytes
from_bytes fromhex timetuple isocalendar sum mean std var prod min max argmin argmax
argsort astype reshape ravel flatten tolist transpose dot cumsum cumprod clip round any all
nonzero squeeze repeat take diagonal trace swapaxes searchsorted compress choose conj
_replace _asdict _make replace from_iterable sqrt ln log10 exp is_nan is_finite to_integral
to_integral_value normalize copy_abs sign unpack unpack_from pack iter_unpack with_name
with_suffix joinpath relative_to is_relative_to as_posix __getitem__ __len__ __contains__
__eq__ __lt__ __le__ __gt__ __ge__ __iter__ __add__ __sub__ __mul__ __str__ __repr__
limit_denominator hosts subnets supernet substitute safe_substitute new_child""")
PURE_METHODS = PLAIN_METHODS | (_OTHER_METHODS - CHANGING_METHODS)
# Methods of str and bytes only; of a known text they are pure by that.
TEXT_METHODS = frozenset(
    name for name in (*dir(str), *dir(bytes)) if not name.startswith("__")
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
    """Return the loaded module of a C function that does not tell it, as in OpenCV.

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
    module, name = module_of(function), _qualified(function)
    if f"{module}.{name}" in _EXCEPTIONS:
        return False
    listed = module in _PURE_MODULES or name in _names(module, changing=False)
    return listed and _is_really(function, module, name)


def changes_first_argument(function: Any) -> bool:
    """Tell whether a function is known to change its first argument, and no more.

    >>> import heapq
    >>> changes_first_argument(heapq.heappush)
    True
    """
    module, name = module_of(function), _qualified(function)
    listed = name in _names(module, changing=True)
    return listed and _is_really(function, module, name)


def gives_view(function: Any) -> bool:
    """Tell whether a NumPy function may give its argument, or a part of its memory.

    >>> import numpy as np
    >>> gives_view(np.asarray), gives_view(np.sqrt)
    (True, False)
    """
    return getattr(function, "__name__", "") in _VIEWS


def why_impure(function: Any) -> str | None:
    """Return what an impure function of the standard library does, or None.

    >>> import random
    >>> why_impure(random.gauss), why_impure(print), why_impure(len)
    ('draws random numbers', 'does output', None)
    """
    name = getattr(function, "__name__", "")
    if getattr(builtins, name, None) is function:
        return IMPURE_BUILTINS.get(name)
    module = module_of(function) or type(getattr(function, "__self__", None)).__module__
    return _impurity_of(module)


def why_impure_module(module: ModuleType) -> str | None:
    """Return what touching the tables of a module does, or None."""
    return _impurity_of(module.__name__)


def _impurity_of(module: str) -> str | None:
    while module:
        if module in IMPURE_MODULES:
            return IMPURE_MODULES[module]
        module = module.rpartition(".")[0]
    return None


def _qualified(function: Any) -> str:
    return str(getattr(function, "__qualname__", getattr(function, "__name__", "")))


def _is_really(function: Any, module: str, name: str) -> bool:
    """Tell whether a name in a module still stands for this object."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is function
