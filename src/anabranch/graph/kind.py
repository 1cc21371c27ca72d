"""The base classes of all kinds of operators, sources and sinks, and the traits of an
operator.

A kind is frozen data that says *what the user wrote*. It has no running state: its
kernel, next to it in `anabranch.operators`, executes it, and its traits say what may be
assumed about it.

A trait that cannot be proved is unsafe: an unknown function has global state, gives any
number of outputs and forwards nothing, until its author declares otherwise. The kind of
an operator gives its traits as if its code were pure and forwarded nothing
(`Kind.traits`); the analysis of the code adds the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

if TYPE_CHECKING:
    from anabranch.graph.graph import Op


State = Literal["stateless", "keyed", "global"]
Trait = Literal["state", "rate", "forwards", "punctuation", "order"]
Cause = Literal["unseen", "kind", "writes", "input", "world", "shared", "identity"]


class Evidence(NamedTuple):
    """Why a trait was given: a phrase, and the user's line behind it.

    `cause` distinguishes an assumption from a proof. `unseen`: the code could not be
    followed there, so the worst is assumed, and a declaration may say otherwise. All
    others are proved. `kind`: operators of this kind are like that. `writes`: the code
    changes something that outlives the call. `input`: it changes the input item.
    `world`: it depends on, or affects, the outside world. `shared`: it reads what the
    code of an operator changes. `identity`: it tells objects apart that a copy would not.
    """

    trait: Trait
    text: str
    file: str
    line: int
    cause: Cause = "unseen"


class Push(NamedTuple):
    """The number of outputs per input item; `most` is None if there is no bound."""

    least: int
    most: int | None

    def then(self, other: Push) -> Push:
        """Return the range of two operators in sequence.

        >>> Push(0, 1).then(Push(1, None))
        Push(least=0, most=None)
        """
        bounded = self.most is not None and other.most is not None
        most = self.most * other.most if bounded else None  # type: ignore[operator]
        if 0 in (self.most, other.most):
            most = 0
        return Push(self.least * other.least, most)


@dataclass(frozen=True)
class Traits:
    """The traits of one operator.

    `pop` is how many items it takes at a time, None if that varies. `forwards` are the
    attributes that each output has unchanged from the item that caused it (for a
    window: from its items); None means all of them. `punctuation` is what it does to
    marks in its input, `expects_punctuation` whether it needs them. `in_parallel` tells
    whether a source can be read, or a sink written, by several workers at once,
    `unordered` whether a sink takes its items in any order. `effects` are those of user
    code that are confined to its process: what it changes outside its state, or reads
    from the outside world. `lifted` are the variables that hold its state, `not_lifted`
    why some that it changes do not. `copied` tells whether each output is copied as it
    is given, since the code may keep it and change it later.
    """

    state: State
    key: tuple[str, ...] = ()
    pop: int | None = 1
    push: Push = Push(1, 1)  # noqa: RUF009 - a tuple cannot be changed
    forwards: frozenset[str] | None = frozenset()
    punctuation: Literal["free", "preserving", "generating"] = "free"
    expects_punctuation: bool = False
    in_parallel: bool = False
    unordered: bool = False
    effects: bool = False
    evidence: tuple[Evidence, ...] = ()
    lifted: tuple[Any, ...] = ()  # places of variables, see `operators.lifted`
    not_lifted: str = ""
    copied: bool = False


ONE = Push(1, 1)
AT_MOST_ONE = Push(0, 1)
ANY = Push(0, None)
NONE = Push(0, 0)


def why(op: Op, trait: Trait, text: str) -> Evidence:
    """Return evidence that rests on the operator itself."""
    return Evidence(trait, text, op.site.file, op.site.line, "kind")


def keep_nothing(op: Op, push: Push, **others: Any) -> Traits:
    """Return the traits of a stateless operator."""
    text = f"{op.kind.label} keeps nothing from one item to the next"
    return Traits("stateless", push=push, evidence=(why(op, "state", text),), **others)


def keep_one_state(op: Op, text: str, push: Push, **others: Any) -> Traits:
    """Return the traits of an operator with one state for all items."""
    return Traits("global", push=push, evidence=(why(op, "state", text),), **others)


def keep_by_key(op: Op, what: str, push: Push, **others: Any) -> Traits:
    """Return the traits of a stateful operator: per key, or one state for all."""
    key = op.state_key
    state: State = "keyed" if key else "global"
    text = (
        f"{what} per {', '.join(key)}" if key else f"{what}, one for the whole stream"
    )
    return Traits(
        state, key=key, push=push, evidence=(why(op, "state", text),), **others
    )


class UserCode(NamedTuple):
    """A user's function and its role in its operator."""

    role: str
    function: Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Kind:
    """The base of every kind of operator.

    `keyable` kinds partition their state by key on a keyed stream.
    """

    label: ClassVar[str] = "operator"
    keyable: ClassVar[bool] = False

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The user's functions, each with its role."""
        return ()

    @property
    def outputs(self) -> int:
        """The number of output streams of the operator."""
        return 1

    def traits(self, op: Op) -> Traits:
        """Return the traits of `op`, of this kind, if its code is pure."""
        text = f"nothing is known about operators of kind {self.label}"
        return keep_one_state(op, text, ANY)


@dataclass(frozen=True, eq=False)
class SourceKind(Kind):
    """The base of every source."""

    label: ClassVar[str] = "source"

    @property
    def live(self) -> bool:
        """Whether only `stop()` ends it; an endless generator cannot say so."""
        return False

    @property
    def in_parallel(self) -> bool:
        """Whether several workers can read it at once."""
        return True

    def traits(self, op: Op) -> Traits:
        return keep_nothing(op, ONE, in_parallel=self.in_parallel)


@dataclass(frozen=True, eq=False)
class SinkKind(Kind):
    """The base of every kind of sink."""

    label: ClassVar[str] = "sink"

    @property
    def outputs(self) -> int:
        return 0
