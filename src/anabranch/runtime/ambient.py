"""Ambient settings: process and thread state that a program's code reads implicitly.

Decimal contexts, NumPy's error handling, warning filters, the time zone: a new thread
or worker does not start with those of the thread that runs the program. So they are
captured where the program starts, and set wherever its code runs, once per thread and
task.

Within this process most of them are common to all threads; a copy of the context
(`contextvars`) brings the rest, including Decimal's and NumPy's. Another process
receives them as `AmbientSettings` and restores its own when the task ends. Process-wide
settings of modules are read and set by their entries in `KEEPERS`.
"""

from __future__ import annotations

import abc
import contextlib
import contextvars
import copyreg
import decimal
import functools
import importlib
import locale
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

from anabranch.errors import EngineError
from anabranch.graph.graph import Graph
from anabranch.graph.site import is_users_module
from anabranch.runtime.call_watch import CallLimit, find_codes

P = ParamSpec("P")
R = TypeVar("R")

# Properties of a process, not of a program.
_OWN_VARIABLES = frozenset(
    {"PATH", "HOME", "PWD", "OLDPWD", "TMPDIR", "HOSTNAME", "USER", "LOGNAME"}
    | {"SHLVL", "_"}
)
_OWN_PREFIXES = (
    *("SPARK_", "PYSPARK_", "JAVA_", "PY4J_", "LD_", "DYLD_"),
    *("PYTHONPATH", "PYTHONHASHSEED", "PYTHONHOME", "PYTHON_WORKER_"),
)


@dataclass(frozen=True)
class AmbientSettings:
    """The settings to send to another process.

    `kept` has process-wide settings by module name; in `variables` of the environment,
    None means unset.
    """

    kept: Mapping[str, Any]
    warning_filters: tuple[Any, ...]
    variables: Mapping[str, str | None]

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Apply the settings in this process for the duration of the block."""
        for name in self.kept:
            _load(name, self.kept[name])
        before = capture_settings(self.variables, self.kept)
        self._set()
        try:
            yield
        finally:
            before._set()  # noqa: SLF001 - of the same class

    def _set(self) -> None:
        if tuple(warnings.filters) != self.warning_filters:
            warnings.resetwarnings()  # invalidates the record of warnings already shown
            warnings.filters[:] = self.warning_filters  # type: ignore[index]
        self._set_variables()
        for name, value in self.kept.items():
            if name in sys.modules:
                module, keeper = sys.modules[name], KEEPERS[name]
                if keeper.get(module) != value:
                    keeper.set(module, value)

    def _set_variables(self) -> None:
        for name, value in self.variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if "TZ" in self.variables and hasattr(time, "tzset"):
            time.tzset()


# Those that code of the program refers to.
_THREAD_LOCALS: contextvars.ContextVar[tuple[threading.local, ...]] = (
    contextvars.ContextVar("anabranch_thread_locals", default=())
)


@dataclass(frozen=True)
class Ambient:
    """The settings around the program when it was started."""

    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    limit: CallLimit | None = None
    _locals: tuple[tuple[threading.local, dict[str, Any]], ...] = field(init=False)

    def __post_init__(self) -> None:
        known = self.context.get(_THREAD_LOCALS, ())
        found = tuple((one, dict(vars(one))) for one in known)
        object.__setattr__(self, "_locals", found)

    def bind(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function that runs with these settings in any thread, once.

        >>> precise = decimal.Context(prec=3)
        >>> with decimal.localcontext(precise):
        ...     third = Ambient().bind(lambda: decimal.Decimal(1) / 3)
        >>> third()
        Decimal('0.333')
        """
        context, limit = self.context.copy(), self.limit

        def run(*args: P.args, **keywords: P.kwargs) -> R:
            for one, values in self._locals:
                vars(one).update(values)
            with contextlib.nullcontext() if limit is None else limit.in_force():
                return context.run(function, *args, **keywords)

        return run


def capture_ambient(graph: Graph, item_timeout_s: float | None = None) -> Ambient:
    """Capture the settings around a program, including thread-local values."""
    context = contextvars.copy_context()
    context.run(_THREAD_LOCALS.set, _find_thread_locals(graph))
    if item_timeout_s is None:
        return Ambient(context)
    return Ambient(context, CallLimit(find_codes(graph), item_timeout_s))


def _find_thread_locals(graph: Graph) -> tuple[threading.local, ...]:
    """Return the `threading.local` objects that functions of a program refer to."""
    waiting: list[Any] = [function for op in graph for function in op.called]
    seen = {id(one) for one in waiting}
    found = []
    for one in waiting:
        if issubclass(type(one), threading.local):
            found.append(one)
        for each in _values_named_by(one):
            if id(each) not in seen:
                seen.add(id(each))
                waiting.append(each)
    return tuple(found)


def _values_named_by(value: Any) -> Iterator[Any]:
    """Yield the values that a piece of user code refers to by name.

    Only types are checked: asking an object for its class may run user code.
    """
    kind = type(value)
    if kind is MethodType:
        yield from (value.__func__, value.__self__)
    elif kind is functools.partial:
        yield from (value.func, *value.args, *value.keywords.values())
    elif kind is ModuleType or issubclass(kind, type):
        if not _is_library(getattr(value, "__module__", value.__name__)):
            yield from vars(value).values()
    elif kind is FunctionType and not _is_library(value.__module__):
        codes = [value.__code__]
        for code in codes:
            codes += [one for one in code.co_consts if isinstance(one, CodeType)]
            known = value.__globals__
            yield from (known[name] for name in code.co_names if name in known)
        yield from value.__defaults__ or ()
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):  # it is still empty
                yield cell.cell_contents


def _is_library(module: str | None) -> bool:
    top = str(module).partition(".")[0]
    if top in sys.stdlib_module_names or top == __name__.partition(".")[0]:
        return True
    file = getattr(sys.modules.get(top), "__file__", None)
    return file is not None and f"{os.sep}site-packages{os.sep}" in file


def capture_settings(
    variables: Mapping[str, str | None] | None = None,
    kept: Mapping[str, Any] | None = None,
) -> AmbientSettings:
    """Return the settings of this thread and process.

    It has the environment variables named, or all that changed since this process
    began; and the settings of the modules named, or of all loaded ones.
    """
    if variables is None:
        began = _first_environment()
        names = [
            name
            for name in {**began, **os.environ}
            if began.get(name) != os.environ.get(name) and not _is_own(name)
        ]
    else:
        names = list(variables)
    modules = [name for name in (kept or KEEPERS) if name in sys.modules]
    return AmbientSettings(
        kept={name: KEEPERS[name].get(sys.modules[name]) for name in modules},
        warning_filters=tuple(warnings.filters),
        variables={name: os.environ.get(name) for name in names},
    )


def _is_own(variable: str) -> bool:
    return variable in _OWN_VARIABLES or variable.startswith(_OWN_PREFIXES)


def _load(name: str, value: Any) -> None:
    """Load a module whose settings differ from its defaults."""
    if name not in sys.modules and value != KEEPERS[name].first:
        importlib.import_module(name)


def _first_environment() -> Mapping[str, str]:
    """Return the environment with which this process began, as far as known."""
    try:
        data = Path("/proc/self/environ").read_bytes()
    except OSError:
        return _AT_IMPORT
    pairs = (os.fsdecode(pair).partition("=") for pair in data.split(b"\0") if pair)
    return {name: value for name, _, value in pairs}


_AT_IMPORT = dict(os.environ)


@dataclass(frozen=True)
class Keeper:
    """Reads and sets the process-wide settings of a module.

    A module that the other process has not loaded is loaded there, unless its settings
    equal `first`.
    """

    get: Callable[[Any], Any]
    set: Callable[[Any, Any], None]
    first: Any = ...


def _get_contexts(module: Any) -> tuple[decimal.Context, ...]:
    """Return this thread's decimal context and the templates for new ones."""
    return tuple(one.copy() for one in (module.getcontext(), *_templates(module)))


def _set_contexts(module: Any, contexts: tuple[decimal.Context, ...]) -> None:
    module.setcontext(contexts[0].copy())
    for own, other in zip(_templates(module), contexts[1:], strict=True):
        for name in ("prec", "rounding", "Emin", "Emax", "capitals", "clamp"):
            setattr(own, name, getattr(other, name))
        own.flags.update(other.flags)
        own.traps.update(other.traps)


def _templates(module: Any) -> tuple[decimal.Context, ...]:
    return module.DefaultContext, module.BasicContext, module.ExtendedContext


_CATEGORIES = ("LC_CTYPE", "LC_COLLATE", "LC_TIME", "LC_MONETARY", "LC_NUMERIC")


def _set_locales(module: Any, names: Mapping[str, str]) -> None:
    for category, name in names.items():
        number = getattr(module, category)
        if module.setlocale(number) == name:
            continue
        try:
            module.setlocale(number, name)
        except locale.Error as error:
            # set for every process; hardly any code reads it
            if category == "LC_CTYPE":
                continue
            msg = (
                f"workers must have the locale of the program; {category} is {name!r}, "
                f"which this one does not have; install it there, or do without setlocale"
            )
            raise EngineError(msg) from error


def _set_sys(module: Any, value: tuple[list[str], int, int]) -> None:
    module.argv[:], limit, digits = value
    module.setrecursionlimit(limit)
    module.set_int_max_str_digits(digits)


def _set_numpy(module: Any, value: tuple[Any, Any, Any]) -> None:
    errors, on_error, text = value
    module.seterr(**errors)
    module.seterrcall(on_error)
    module.set_printoptions(**text)


_DIALECT = (
    *("delimiter", "doublequote", "escapechar", "lineterminator", "quotechar"),
    *("quoting", "skipinitialspace", "strict"),
)


def _get_csv(module: Any) -> tuple[int, Mapping[str, Mapping[str, Any]]]:
    dialects = {name: module.get_dialect(name) for name in module.list_dialects()}
    return module.field_size_limit(), {
        name: {each: getattr(dialect, each) for each in _DIALECT}
        for name, dialect in dialects.items()
    }


def _set_csv(module: Any, value: tuple[int, Mapping[str, Mapping[str, Any]]]) -> None:
    limit, dialects = value
    module.field_size_limit(limit)
    for name in set(module.list_dialects()) - set(dialects):
        module.unregister_dialect(name)
    for name, dialect in dialects.items():
        module.register_dialect(name, **dialect)


def _get_logging(module: Any) -> tuple[int, Mapping[str, int], Mapping[str, int]]:
    """Return the disabled level, the levels of loggers, and the names of levels."""
    root = module.root
    loggers = {
        name: logger.level
        for name, logger in [*root.manager.loggerDict.items(), ("root", root)]
        if isinstance(logger, module.Logger) and logger.level != module.NOTSET
    }
    return root.manager.disable, loggers, module.getLevelNamesMapping()


def _set_logging(
    module: Any, value: tuple[int, Mapping[str, int], Mapping[str, int]]
) -> None:
    disabled, levels, names = value
    for name in {**_get_logging(module)[1], **levels}:
        module.getLogger(name).setLevel(levels.get(name, module.NOTSET))
    for name, level in names.items():
        if module.getLevelNamesMapping().get(name) != level:
            module.addLevelName(level, name)
    module.disable(disabled)


def _get_types(module: Any) -> list[dict[str, Any]] | None:
    """Return the tables of file types, which are read from the host on first use."""
    return [dict(one) for one in _tables(module)] if module.inited else None


def _set_types(module: Any, tables: list[dict[str, Any]] | None) -> None:
    if tables is not None:
        if not module.inited:
            module.init()
        for own, other in zip(_tables(module), tables, strict=True):
            _replace(own, other)


def _tables(module: Any) -> list[dict[str, Any]]:
    known = module._db  # noqa: SLF001 - there is no other way to the inverse tables
    maps = (*known.types_map, *known.types_map_inv)
    return [known.encodings_map, known.suffix_map, *maps]


def _get_options(module: Any) -> Mapping[str, Any]:
    """Return the pandas options that differ from their defaults."""
    known = module._config.config._registered_options  # noqa: SLF001 - see above
    values = ((key, module.get_option(key, silent=True)) for key in known)
    return {key: value for key, value in values if value != known[key].defval}


def _set_options(module: Any, options: Mapping[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some options are deprecated
        for key in set(_get_options(module)) - set(options):
            module.reset_option(key)
        for key, value in options.items():
            module.set_option(key, value)


def _replace(own: dict[Any, Any], other: Mapping[Any, Any]) -> None:
    """Replace the contents of a table that others may refer to."""
    if own != other:
        own.clear()
        own.update(other)


def _set_domains(module: Any, value: tuple[str, Mapping[str, str]]) -> None:
    domain, folders = value
    module.textdomain(domain)
    _replace(module._localedirs, folders)  # noqa: SLF001 - only one by one elsewhere


def _prefixes(module: Any) -> dict[str, str]:
    found: dict[str, str] = module.register_namespace._namespace_map  # noqa: SLF001
    return found


_FIRST_REDUCERS = dict(copyreg.dispatch_table)


def _get_reducers(module: Any) -> Mapping[Any, Any]:
    """Return the copy and pickle functions that the program has registered."""
    return {
        each: reducer
        for each, reducer in module.dispatch_table.items()
        if _FIRST_REDUCERS.get(each) is not reducer or reducer.__module__ == "__main__"
    }


def _set_reducers(module: Any, reducers: Mapping[Any, Any]) -> None:
    for each in set(_get_reducers(module)) - set(reducers):
        del module.dispatch_table[each]
    module.dispatch_table.update(reducers)


ClassName: TypeAlias = tuple[str, str]  # module and name


class _Registered(NamedTuple):
    """Who is registered as a subclass of an abstract class; libraries' by name."""

    abstract: type | ClassName
    own: type | ClassName


def _get_registered(module: Any) -> frozenset[_Registered]:
    """Return what `register` of abstract classes has been given in this process."""
    return _find_registered(module.get_cache_token())


@functools.lru_cache(maxsize=1)
def _find_registered(_: int) -> frozenset[_Registered]:
    """Return it as of a cache token, which changes with each registration."""
    classes: dict[type, None] = {object: None}
    waiting = [object]
    while waiting:
        found = type.__subclasses__(waiting.pop())
        waiting += [each for each in found if each not in classes]
        classes.update(dict.fromkeys(found))
    return frozenset(
        _Registered(_class_or_name(each), _class_or_name(own))
        for each in classes
        if isinstance(each, abc.ABCMeta)
        for reference in abc._get_dump(each)[0]  # type: ignore[attr-defined]  # noqa: SLF001
        if (own := reference()) is not None
    )


def _class_or_name(cls: type) -> type | ClassName:
    users = cls.__module__ in sys.modules and is_users_module(cls.__module__)
    return cls if users else (cls.__module__, cls.__qualname__)


def _register(_: Any, pairs: frozenset[_Registered]) -> None:
    """Register classes as subclasses; there is no way to take one away."""
    for pair in pairs - _find_registered(abc.get_cache_token()):
        abstract, own = map(_find_class, pair)
        if abstract is not None and own is not None and not issubclass(own, abstract):
            abstract.register(own)


def _find_class(given: type | ClassName) -> Any:
    """Return a class; None if its module is not loaded."""
    if isinstance(given, type):
        return given
    module, name = given
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


_SCHEMES = ("uses_relative", "uses_netloc", "uses_params")


def _set_schemes(module: Any, schemes: Sequence[Sequence[str]]) -> None:
    for name, known in zip(_SCHEMES, schemes, strict=True):
        getattr(module, name)[:] = known


KEEPERS: Mapping[str, Keeper] = {
    "abc": Keeper(_get_registered, _register),
    "encodings.aliases": Keeper(
        lambda aliases: dict(aliases.aliases),
        lambda aliases, known: _replace(aliases.aliases, known),
    ),
    "urllib.parse": Keeper(
        lambda parse: tuple(list(getattr(parse, name)) for name in _SCHEMES),
        _set_schemes,
    ),
    "decimal": Keeper(_get_contexts, _set_contexts),
    "numpy": Keeper(
        lambda numpy: (numpy.geterr(), numpy.geterrcall(), numpy.get_printoptions()),
        _set_numpy,
    ),
    "sys": Keeper(
        lambda sys: (
            *(list(sys.argv), sys.getrecursionlimit()),
            sys.get_int_max_str_digits(),
        ),
        _set_sys,
    ),
    "locale": Keeper(
        lambda locale: {c: locale.setlocale(getattr(locale, c)) for c in _CATEGORIES},
        _set_locales,
    ),
    "calendar": Keeper(
        lambda calendar: calendar.firstweekday(),
        lambda calendar, day: calendar.setfirstweekday(day),
    ),
    "copyreg": Keeper(_get_reducers, _set_reducers),
    "csv": Keeper(_get_csv, _set_csv),
    "gettext": Keeper(
        lambda gettext: (gettext.textdomain(), dict(gettext._localedirs)),  # noqa: SLF001
        _set_domains,
    ),
    "logging": Keeper(_get_logging, _set_logging),
    "mimetypes": Keeper(_get_types, _set_types, first=None),
    "pandas": Keeper(_get_options, _set_options, first={}),
    "xml.etree.ElementTree": Keeper(
        lambda tree: dict(_prefixes(tree)),
        lambda tree, prefixes: _replace(_prefixes(tree), prefixes),
    ),
}
