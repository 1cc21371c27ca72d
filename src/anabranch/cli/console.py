"""The console of the command line, its error, the arguments that commands share, and the
programs they name.

The file of `FILE:NAME` is loaded as a module of its own name, with its folder on the
path, just as `import` would; so pickles find its classes and functions by name.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FunctionType, ModuleType, TracebackType
from typing import Any

from rich.console import Console

from anabranch.connectors.storage import Location, locate
from anabranch.epochs.transport.modules import send_by_value
from anabranch.epochs.transport.pickle import PROGRAM
from anabranch.errors import AnabranchError, CheckpointError, LoopError
from anabranch.graph.paths import path_advice, plain_path, why_not_path
from anabranch.language.drafts import Result
from anabranch.language.loop.to_stream import Loop
from anabranch.language.stream import Stream
from anabranch.run_options import checkpoint_path


def words() -> Console:
    """Return the console for messages, progress and summaries."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


class CommandError(AnabranchError):
    """A file, a name or a folder on the command line is missing or unusable."""

    code = "AB61"


ENGINES = ("spark", "local", "sequential")


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add FILE[:NAME]."""
    parser.add_argument(
        "target",
        metavar="FILE[:NAME]",
        help="a Python file, and in it a sink, a list of sinks or a function that "
        "returns them; without NAME: program, main, sinks or the only sink",
    )


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add --on."""
    parser.add_argument(
        "--on",
        choices=ENGINES,
        default="spark",
        help="where it runs (default: spark)",
    )


def local_path(text: str) -> Path:
    """Return the path that an argument names: a plain one or a `file:` URL.

    >>> local_path("file:///jobs/vwap.checkpoint")
    PosixPath('/jobs/vwap.checkpoint')
    """
    path = plain_path(text)
    why = why_not_path(path)
    if why is not None:
        msg = f"must be a path of this machine; {why}; {path_advice(path)}"
        raise argparse.ArgumentTypeError(msg)
    return Path(path)


def checkpoint_place(text: str) -> Location:
    """Return the location of a checkpoint that an argument names.

    >>> checkpoint_place("s3://jobs/vwap.checkpoint").name
    'vwap.checkpoint'
    """
    try:
        return locate(checkpoint_path(text))
    except CheckpointError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def at_least(least: int) -> Callable[[str], int]:
    """Return an argument type: an integer with a lower bound.

    >>> at_least(1)("8")
    8
    """

    def number(text: str) -> int:
        if text.isdecimal() and int(text) >= least:
            return int(text)
        msg = f"must be a whole number of at least {least}; got {text!r}"
        raise argparse.ArgumentTypeError(msg)

    return number


DEFAULT_NAMES = ("program", "main", "sinks")


def load_sinks(target: str) -> tuple[Result, ...]:
    """Return the sinks that `FILE[:NAME]` names.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/doc_example.py"
    >>> text = "import anabranch as ab; out = ab.from_iterable([1]).to_list()"
    >>> _ = Path(path).write_text(text)
    >>> [sink.draft.kind.label for sink in load_sinks(path + ":out")]
    ['to_list']
    """
    path, name = split_target(target)
    module = load_module(path)
    found = find_named(module, name) if name else default(module)
    return sinks_of(found, target)


def split_target(target: str) -> tuple[Path, str | None]:
    """Return the file and the name in it.

    >>> split_target("jobs/vwap.py:prices")
    (PosixPath('jobs/vwap.py'), 'prices')
    >>> split_target("jobs/vwap.py")
    (PosixPath('jobs/vwap.py'), None)
    """
    file, colon, name = target.rpartition(":")
    if colon and name.isidentifier():
        return _file_of(file), name
    return _file_of(target), None


def _file_of(text: str) -> Path:
    path = plain_path(text)
    why = why_not_path(path)
    if why is not None:
        msg = f"a program is a Python file of this machine; {why}; {path_advice(path)}"
        raise CommandError(msg)
    return Path(path)


def load_module(path: Path) -> ModuleType:
    """Load a program file, and send its code to workers by value.

    So is the code it imports from its own folder.
    """
    if not path.is_file():
        msg = f"a program is a Python file; there is no file {path}{_similar(path)}"
        raise CommandError(msg)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        msg = f"a program is a Python file; the name of {path} does not end in .py"
        raise CommandError(msg)
    module = importlib.util.module_from_spec(spec)
    before = set(sys.modules)
    sys.modules[name] = module
    with _UserTraceback(path):
        spec.loader.exec_module(module)
    imported = [sys.modules[new] for new in set(sys.modules) - before]
    send_by_value(module, *(one for one in imported if _lies_in(one, folder)))
    return module


def find_named(module: ModuleType, name: str) -> Any:
    """Return the object called `name` in a program file."""
    if name in vars(module):
        return vars(module)[name]
    public = [one for one in vars(module) if not one.startswith("_")]
    close = difflib.get_close_matches(name, public, n=1)
    meant = f"did you mean {close[0]!r}?" if close else _choices(vars(module))
    msg = f"{module.__file__} has no {name!r}; {meant}"
    raise CommandError(msg)


def default(module: ModuleType) -> Any:
    """Return the program of a file when no name is given: see `DEFAULT_NAMES`."""
    for name in DEFAULT_NAMES:
        if name in vars(module):
            return vars(module)[name]
    found = {name: v for name, v in vars(module).items() if isinstance(v, Result)}
    if len({id(sink) for sink in found.values()}) == 1:
        return next(iter(found.values()))
    wanted = "without a NAME a file must have program, main, sinks or one single sink"
    msg = f"{wanted}; {module.__file__} has {len(found)} sinks; {_choices(found)}"
    raise CommandError(msg)


def sinks_of(found: Any, target: str) -> tuple[Result, ...]:
    """Return the sinks of a value: one, several, or a function that returns them."""
    if isinstance(found, Loop):  # calling it would run it as written
        _refuse_parameters(found, target)
        found = found.stream
    if callable(found) and not isinstance(found, type):
        with _UserTraceback(split_target(target)[0]):
            found = found()
    sinks = (found,) if isinstance(found, Result) else found
    if isinstance(sinks, Iterable) and not isinstance(sinks, str | Mapping):
        sinks = tuple(sinks)
        if sinks and all(isinstance(sink, Result) for sink in sinks):
            return sinks
    hint = (
        "end the stream with a sink such as .to_list() or .write_csv(path)"
        if isinstance(found, Stream) or found is None
        else "name the result of .to_list(), .write_csv(path) or another sink"
    )
    msg = f"{target} must be a sink, a list of sinks or a function that returns them; it is {_describe(found)}; {hint}"
    raise CommandError(msg)


def _refuse_parameters(loop: Loop, target: str) -> None:
    wanted = [
        name
        for name, one in inspect.signature(loop).parameters.items()
        if one.default is one.empty
        and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if wanted:
        name = loop.__name__
        msg = (
            f"a loop that is run by its name must take no arguments; {target} wants "
            f"{', '.join(wanted)}; name a function that returns {name}.stream(...)"
        )
        raise CommandError(msg)


class _UserTraceback:
    """Turns an exception in the user's file into its traceback without our frames."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, LoopError):
            return
        own = str(self._path.resolve())
        if isinstance(error, AnabranchError):  # which says what to do: no traceback
            frames = traceback.extract_tb(trace)
            places = [f":{one.lineno}" for one in frames if one.filename == own]
            at = f"{self._path}{places[-1] if places else ''}"
            msg = f"{at} cannot be loaded: {type(error).__name__}: {error}"
            raise CommandError(msg) from error
        while trace is not None and trace.tb_frame.f_code.co_filename != own:
            trace = trace.tb_next
        lines = traceback.format_exception(type(error), error, trace)
        msg = f"{self._path} cannot be loaded\n{''.join(lines).rstrip()}"
        raise CommandError(msg) from error


def _module_name(path: Path) -> str:
    """Return the stem, unless a module of that name already exists elsewhere."""
    taken = sys.modules.get(path.stem)
    file = getattr(taken, "__file__", None)
    again = file is not None and Path(file).resolve() == path.resolve()
    if path.stem in sys.stdlib_module_names or (taken is not None and not again):
        return path.stem + PROGRAM
    return path.stem


def _lies_in(module: ModuleType, folder: str) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or "site-packages" in file:
        return False
    return Path(file).resolve().is_relative_to(folder)


def _similar(path: Path) -> str:
    folder = path.parent
    names = [one.name for one in folder.glob("*.py")] if folder.is_dir() else []
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.5)
    return f"; did you mean {folder / close[0]}?" if close else ""


def _may_make_sinks(value: Any, names: Mapping[str, Any]) -> bool:
    """Tell whether something in a file is a function of its own without arguments."""
    return (
        isinstance(value, FunctionType)
        and value.__module__ == names.get("__name__")
        and not value.__name__.startswith("_")
        and not inspect.signature(value).parameters
    )


def _choices(names: Mapping[str, Any]) -> str:
    sinks = [
        name
        for name, value in names.items()
        if isinstance(value, Result) or _may_make_sinks(value, names)
    ]
    if sinks:
        return f"name one of them, as in FILE:{sinks[0]}; there are {', '.join(sinks)}"
    return "give the sink, or a function that returns it, a name in the file"


def _describe(found: Any) -> str:
    return "None" if found is None else f"a {type(found).__name__}"
