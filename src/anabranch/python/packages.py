"""What the methods of classes of Python's and of packages do, class by class.

Where the class of an object is known, its methods are known by more than their names: a
`Struct` can be shared by all calls, a `StringIO` that was made in the call is the call's
own to write to, a fitted estimator is read by `predict` and changed by `fit`.
"""

from __future__ import annotations

import contextlib
import decimal
import functools
import logging
import random
import sys
import types
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from anabranch.python.objects import is_users_class
from anabranch.python.values import (
    Arguments,
    Fresh,
    Input,
    Known,
    Plain,
    Root,
    Shared,
    Value,
)


class Facts(NamedTuple):
    """What the methods of a class do to the object and to what they are given.

    `gives` numbers, texts and the like; `parts`: what the object holds, or what is made
    of it; `changes` the object, and with `through` what that holds; `takes`: change what
    they are given. Where it `can_be_shared` an object may outlive the call. It is `open`
    if methods are harmless that are on no list, apart from those that are `refused`.
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


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


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
    "difflib.Differ": Facts(parts=_words("compare")),
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
    changes=_words("insert pop update"),
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
    """Return what is known of the methods of a class, or None.

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
    """Tell whether an object of a class may outlive the call: its methods are known."""
    facts = facts_of(cls)
    return facts is not None and facts.can_be_shared


def facts_about(root: Root) -> Facts | None:
    """Return what is known of the methods of a value, or None."""
    match root:
        case Fresh(_, type() as kind) | Input(type() as kind):
            return facts_of(kind)
        case Known(obj=obj) if not isinstance(obj, type):
            return facts_of(type(obj))
        case Shared(kinds=kinds) if kinds is not None and len(kinds) == 1:
            return facts_of(*kinds)
    return None


def is_function_of_pandas(function: Any) -> bool:
    """Tell whether a function or class of pandas changes nothing that it is given."""
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


def seeded_generator(function: Any, args: Arguments) -> type | None:
    """Return the class of the random numbers that a call gives, if a seed decides them.

    >>> seed = frozenset([Plain(int)])
    >>> seeded_generator(random.Random, Arguments([seed])).__name__
    'Random'
    >>> seeded_generator(random.Random, Arguments()) is None
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
    """Tell whether a function writes to a log, or gives what does."""
    name = getattr(function, "__name__", "")
    return name in _LOGGING and getattr(logging, name) is function


def handles_logs(cls: type) -> bool:
    """Tell whether code of a class may run when something is logged."""
    return issubclass(cls, _HANDLING)


@functools.singledispatch
def _dispatching(argument: Any) -> None:
    """Stand for any function with implementations by type."""


@contextlib.contextmanager
def _managing() -> Any:
    """Stand for any context manager that is written as a generator."""
    yield


_DISPATCHING: Final = _dispatching.__code__  # type: ignore[attr-defined]
_MANAGING: Final = _managing.__code__
CONTEXTS: Final[tuple[type, ...]] = (
    *(contextlib.suppress, contextlib.nullcontext, type(decimal.localcontext())),
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
    """Return the generator function that `contextmanager` has wrapped, or None."""
    if isinstance(function, types.FunctionType) and function.__code__ is _MANAGING:
        return function.__wrapped__  # type: ignore[attr-defined]
    return None


PARSE_XML: Final = ET.XML
ELEMENT: Final = ET.Element
