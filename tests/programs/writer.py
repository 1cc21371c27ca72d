"""Writes a program line by line, and remembers what is true of each of its streams.

A step asks for a stream that fits, writes an expression over it and says what the new
stream is like; so every program that comes out is valid and ends without an error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

MOST_ITEMS = 1500


@dataclass(frozen=True)
class Var:
    """A stream of events in the program that is being written.

    `ordered`: times do not fall. `punctuated`: window punctuations come through.
    `items`: at most about so many items.
    """

    name: str
    key: tuple[str, ...] = ()
    ordered: bool = True
    punctuated: bool = False
    items: int = 0


class Writer:
    """The program so far."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.streams: list[Var] = []
        self._used: set[str] = set()
        self._serial = 0

    def pick(self, streams: list[Var] | None = None) -> Var:
        """Choose a stream to go on from: mostly the latest, sometimes a fan-out."""
        among = self.streams if streams is None else streams
        chosen = among[-1] if self.rng.random() < 0.6 else self.rng.choice(among)
        self._used.add(chosen.name)
        return chosen

    def fresh(self) -> str:
        """Return a name that no stream has."""
        self._serial += 1
        return f"s{self._serial}"

    def let(self, expression: str, like: Var, **changes: object) -> Var:
        """Write a line that names a new stream; it is `like` another but for changes."""
        made = replace(like, name=self.fresh(), **changes)
        self.lines.append(f"{made.name} = {expression}")
        self.streams.append(made)
        return made

    def let_several(self, expression: str, like: Var, n: int) -> list[Var]:
        """Write a line that names several new streams at once."""
        made = [replace(like, name=self.fresh()) for _ in range(n)]
        self.lines.append(f"[{', '.join(var.name for var in made)}] = {expression}")
        self.streams.extend(made)
        return made

    def use(self, *streams: Var) -> None:
        """Note that streams have a consumer."""
        self._used.update(var.name for var in streams)

    def leaves(self) -> list[Var]:
        """Return the streams that nothing consumes."""
        return [var for var in self.streams if var.name not in self._used]

    def keyed(self) -> Var:
        """Choose a stream and, often, give it a key."""
        var = self.pick()
        key = self.rng.choice(
            (("key",), ("key",), ("zone",), ("key", "zone"), (), None)
        )
        if key is None or key == var.key:
            return var
        names = ", ".join(f'"{name}"' for name in key)
        return replace(var, name=f"{var.name}.key_by({names})", key=key)

    def small(self, factor: int = 1) -> list[Var]:
        """Return the streams that may grow by a factor."""
        return [var for var in self.streams if var.items * factor <= MOST_ITEMS]
