"""Draw the lines of a figure into out/plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

PLOTS = Path("out") / "plots"


def plot(
    name: str,
    lines: Mapping[str, tuple[Sequence[Any], Sequence[float]]],
    *,
    x: str,
    y: str,
    log: Sequence[str] = (),
    ticks: Sequence[str] = (),
) -> None:
    """Draw lines into out/plots, where Matplotlib is there; those of a paper dashed."""
    with suppress(ImportError):  # the figures are printed anyhow
        import matplotlib as mpl  # noqa: PLC0415 - it takes long, and is needed last

        mpl.use("Agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415

        figure, axes = plt.subplots()
        for label, (xs, ys) in lines.items():
            dashed = "--" if label.startswith("paper") else "-"
            is_named = any(isinstance(place, str) for place in xs)
            places = [str(place) for place in xs] if is_named else list(xs)
            axes.plot(places, list(ys), dashed, marker="o", label=label)
        for axis in log:
            getattr(axes, f"set_{axis}scale")("log", base=2 if axis == "x" else 10)
        if ticks:
            axes.set_xticks(range(len(ticks)), ticks)
        axes.set(title=name, xlabel=x, ylabel=y)
        axes.legend()
        PLOTS.mkdir(parents=True, exist_ok=True)
        figure.savefig(PLOTS / f"{name}.svg")
        plt.close(figure)
        print(f"plot: {PLOTS / name}.svg")
