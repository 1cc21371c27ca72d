"""Where a thread is seen, and which operators that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType
from typing import TypeAlias

from anabranch.metrics.samples import Route
from anabranch.runtime.program import Program

# The file of a program and the lines at which a thread's frames stand in it, innermost
# first; or the operators themselves.
Seen: TypeAlias = tuple[str, tuple[int, ...]] | Route


class Places:
    """The places at which one thread was seen, and for how long.

    A place is noted quickly; what it means is found out at the end.
    """

    def __init__(
        self,
        begin: str,
        programs: Sequence[Program],
        before: Mapping[str, Route],
        elsewhere: Mapping[CodeType, Callable[[FrameType], Route]],
    ) -> None:
        self._begin = begin
        self._programs = {part.filename: part for p in programs for part in p.parts}
        self._before = before
        self._elsewhere = elsewhere
        self._seen: dict[Seen, float] = {}

    def note(self, innermost: FrameType, seconds: float) -> None:
        """Take note that the thread stands at a frame, after so long a time."""
        place, seen = self._at(innermost), self._seen
        seen[place] = seen.get(place, 0.0) + seconds

    def routes(self) -> dict[Route, float]:
        """Return how long the thread was where, by the operators that lead there."""
        routes: dict[Route, float] = {}
        for seen, time_s in self._seen.items():
            match seen:
                case (str() as filename, tuple() as lines):
                    path = self._programs[filename].path_of(lines)
                    route = self._before.get(filename, ()) + path
                case _:
                    route = tuple(map(str, seen))
            routes[route] = routes.get(route, 0.0) + time_s
        return routes

    def _at(self, innermost: FrameType) -> Seen:
        programs, elsewhere = self._programs, self._elsewhere
        frame: FrameType | None = innermost
        while frame is not None:
            code = frame.f_code
            filename = code.co_filename
            if filename in programs:
                lines = []
                while frame is not None and frame.f_code.co_filename == filename:
                    lines.append(frame.f_lineno)
                    frame = frame.f_back
                return filename, tuple(lines)
            if code in elsewhere:
                return elsewhere[code](frame)
            frame = frame.f_back
        return (self._begin,)
