"""`stage`: marks a part of a loop; run as it stands, the mark does nothing."""

from __future__ import annotations

from types import TracebackType


class stage:  # noqa: N801 - reads as the words of a `with`
    """Mark a stage of a loop that `ab.to_stream` turns into a stream.

    `inputs` and `outputs` name the variables that the stage takes and gives, as one name
    or a tuple of names; where they are left out they are found from the code.
    `replicate=True` states that one turn of the stage does not depend on another (the
    author is believed), `replicate=False` keeps it sequential; else analysis decides.

    >>> import anabranch as ab
    >>> @ab.to_stream
    ... def squares(numbers, found):
    ...     for n in numbers:
    ...         with ab.stage(inputs="n", outputs="n"):
    ...             n = n * n
    ...         with ab.stage(inputs="n"):
    ...             found.append(n)
    >>> found = []
    >>> squares([1, 2], found)
    >>> found
    [1, 4]
    """

    def __init__(
        self,
        *,
        inputs: str | tuple[str, ...] | None = None,
        outputs: str | tuple[str, ...] | None = None,
        replicate: bool | None = None,
        name: str | None = None,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.replicate = replicate
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass
