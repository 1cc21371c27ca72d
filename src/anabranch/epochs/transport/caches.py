"""Caches of `functools` that keep their entries in another process.

The cache of a bound method or a closure may be part of a state: what it has computed
once it does not compute again. Python has no way to read or to set the entries of such a
cache, but the garbage collector lists them, in the order in which they would be dropped. A
copy gets them by calls whose results are at hand.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from anabranch.epochs.transport.stable_names import name_function

CACHE: Final = type(functools.lru_cache(len))

Entry: TypeAlias = tuple[tuple[Any, ...], dict[str, Any], Any]  # arguments and result


def reduce_cache(cache: Any) -> Any:
    """Return the reduction of a cache with its entries."""
    info = cache.cache_info()
    given = cache.__wrapped__, cache.cache_parameters()
    if not (info.hits or info.misses):
        return make_cache, given
    contents = list_entries(cache), info.hits, info.misses
    return make_filled_cache, given, contents, None, None, fill_cache


def list_entries(cache: Any) -> list[Entry]:
    """Return the arguments and results that a cache holds, the oldest first.

    >>> power = functools.lru_cache(maxsize=2)(pow)
    >>> power(2, 3), power(2, exp=5), power(2, 3), power(3, 3)
    (8, 32, 8, 27)
    >>> list_entries(power)
    [((2, 3), {}, 8), ((3, 3), {}, 27)]
    """
    held = gc.get_referents(cache)
    at = next(
        n
        for n in reversed(range(len(held)))
        if type(held[n]) is dict and held[n] is not vars(cache)
    )
    table, mark = held[at], held[at + 2]
    maxsize, typed = cache.cache_parameters().values()
    pairs: Iterable[tuple[Any, Any]] = table.items()
    if maxsize is not None and table:  # each has a key, a result, and perhaps a type
        links = held[1:at] if held[0] is CACHE else held[:at]
        step = len(links) // len(table)
        pairs = zip(links[::step], links[1::step], strict=True)
    return [(*_read_key(key, mark, typed=typed), result) for key, result in pairs]


def _read_key(
    key: Any, mark: object, *, typed: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call, from the key under which a cache holds it.

    The key is one int or str, or a tuple: arguments; a mark, names and arguments; types.
    """
    if type(key) is int or type(key) is str:
        return (key,), {}
    at = next((n for n, one in enumerate(key) if one is mark), None)
    if at is None:
        return key[: len(key) // 2] if typed else key, {}
    rest = key[at + 1 :]
    end = 2 * ((len(rest) - at) // 3) if typed else len(rest)
    return key[:at], dict(zip(rest[:end:2], rest[1:end:2], strict=True))


class _Filled:
    """Calls the function of a cache, but first gives a result that is at hand."""

    __slots__ = ("_function", "ready")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.ready: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.ready:
            return self.ready.pop()
        return self._function(*args, **kwargs)


@name_function("cached")
def make_cache(function: Any, parameters: dict[str, Any]) -> Any:
    """Return an empty cache."""
    return functools.lru_cache(**parameters)(function)


@name_function("filled_cache")
def make_filled_cache(function: Any, parameters: dict[str, Any]) -> Any:
    """Return a cache that `fill_cache` can fill."""
    cache = functools.lru_cache(**parameters)(_Filled(function))
    return functools.update_wrapper(cache, function)


@name_function("fill_cache")
def fill_cache(cache: Any, contents: tuple[list[Entry], int, int]) -> None:
    """Give a cache entries, and the counts of hits and misses of the original."""
    entries, *counts = contents
    filled = next(one for one in gc.get_referents(cache) if type(one) is _Filled)
    for args, kwargs, result in entries:
        filled.ready.append(result)
        cache(*args, **kwargs)
    count, clear = cache.cache_info, cache.cache_clear
    before = [counts[0], counts[1] - len(entries)]

    def cache_info() -> Any:
        info = count()
        return info._replace(hits=info.hits + before[0], misses=info.misses + before[1])

    def cache_clear() -> None:
        before[:] = 0, 0
        clear()

    cache.cache_info, cache.cache_clear = cache_info, cache_clear
