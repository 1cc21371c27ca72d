"""The limit of a run, in words: its input, one operator, the cores, or the commits.

The answer rests on the record alone, so an old run is judged like a live one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Sample: TypeAlias = Mapping[str, Any]

LATELY = 5  # samples that describe the present
BUSY = 0.8  # of the time: above this it is saturated; the rest is noise
IDLE = 0.5  # of the time: an element that works less waits for items
SKEWED = 1.5  # times the mean work: a replica with more stands out
OVERHEAD = 0.4  # of an epoch's time: above this a phase is the limit


def find_limit(
    program: Mapping[str, Any],
    samples: Sequence[Sample],
    epochs: Iterable[Mapping[str, Any]],
    status: str = "running",
) -> dict[str, str] | None:
    """Return what limits a run and why; None before anything is known.

    For a run that has ended it is the limit of the whole run.

    >>> load = {"score": {"element": "score", "replicas": 1, "busy": 0.97, "skew": 1.0}}
    >>> samples = [{"at_s": 9.0, "read": 500, "delivered": 9, "load": load}]
    >>> find_limit({"on": "local"}, samples, [])["what"]
    'score is the bottleneck'
    """
    if not samples or status == "failed":
        return None
    if not samples[-1]["read"]:
        return _describe_start(program, samples[-1], status)
    seen, finished = [one for one in samples if one["read"]], list(epochs)
    if status == "running":
        seen, finished = seen[-LATELY:], finished[-LATELY:]
    phase = _find_costly_phase(finished)
    if phase is not None:
        return phase
    busiest = _find_busiest_replicas(seen)
    element = max(busiest, key=lambda name: busiest[name], default=None)
    if element is None:
        return None
    if busiest[element] < IDLE and seen[-1].get("backlog") == 0:
        what = "The input" if status != "running" else "Waiting for input"
        why = (
            f"the busiest thread, that of {element}, works {busiest[element]:.0%} of "
            f"the time, and no items wait"
        )
        return {"what": what, "why": why}
    return _describe_element(program, seen[-1], element, mean_busy(seen)[element])


def _describe_start(
    program: Mapping[str, Any], sample: Sample, status: str
) -> dict[str, str] | None:
    if status != "running":
        return None
    if program.get("on") == "spark" and not sample.get("epochs"):
        return {
            "what": "Starting",
            "why": "Spark and its workers start, and the first epoch has not ended yet",
        }
    return {"what": "The input", "why": "the sources have given no items yet"}


def _find_costly_phase(epochs: Iterable[Mapping[str, Any]]) -> dict[str, str] | None:
    """Return the overhead phase that takes a large share of the epochs' time."""
    totals: dict[str, float] = {}
    for epoch in epochs:
        for name, seconds in epoch["phases"].items():
            totals[name] = totals.get(name, 0.0) + seconds
    whole = sum(totals.values())
    words = {
        "read": ("Finding the input", "reads positions and lists files in the driver"),
        "commit": ("Committing", "writes states and outputs durably"),
    }
    for name, (what, how) in words.items():
        if whole and totals.get(name, 0.0) > OVERHEAD * whole:
            share = totals[name] / whole
            why = f"{share:.0%} of the time of an epoch {how}; larger epochs cost less"
            return {"what": what, "why": why}
    return None


def mean_busy(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the share of the time that each element worked, over some samples."""
    found: dict[str, list[float]] = {}
    for sample in samples:
        for load in sample.get("load", {}).values():
            if "busy" in load:
                found.setdefault(load["element"], []).append(load["busy"])
    return {name: sum(shares) / len(shares) for name, shares in found.items()}


def _find_busiest_replicas(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the share of the time that the busiest replica of each element worked.

    Under skew the mean hides it: with two keys, twelve of fourteen replicas are idle.

    >>> load = {"a": {"element": "a", "replicas": 14, "busy": 0.14, "skew": 7.0}}
    >>> round(_find_busiest_replicas([{"load": load}])["a"], 2)
    0.98
    """
    found: dict[str, list[float]] = {}
    for sample in samples:
        for load in sample.get("load", {}).values():
            if "busy" in load:
                share = min(1.0, load["busy"] * load["skew"])
                found.setdefault(load["element"], []).append(share)
    return {name: sum(shares) / len(shares) for name, shares in found.items()}


def _describe_element(
    program: Mapping[str, Any], sample: Sample, element: str, busy: float
) -> dict[str, str]:
    """Return the limiting element, and why it is not faster."""
    load = {
        name: one for name, one in sample["load"].items() if one["element"] == element
    }
    one = next(iter(load.values()))
    shares = {name: sample.get("shares", {}).get(name, 0.0) for name in load}
    most, whole = max(shares, key=lambda name: shares[name]), sum(shares.values())
    if len(load) > 1 and whole and shares[most] > IDLE * whole:
        hot = _find_hot_keys(program, sample, list(load))
        return _describe_fused(program, one, most, shares[most] / whole, busy, hot=hot)
    names = _join(list(load))
    replicas = one["replicas"]
    who = f"its {replicas} replicas work" if replicas > 1 else "it works"
    reasons = [f"{who} {busy:.0%} of the time"]
    if one.get("waiting"):
        reasons.append(f"{one['waiting']:,} items wait before it")
    reasons += _describe_skew(one, _find_hot_keys(program, sample, list(load)))
    sequential = _find_sequential(program)
    for name in load:
        if replicas == 1 and name in sequential:
            reasons.append(f"{name} runs on one thread: {sequential[name]}")
            break
    cores = program.get("cores")
    if replicas > 1 and cores and replicas >= cores and busy > BUSY:
        return {
            "what": "The cores of this machine",
            "why": f"{names}: {'; '.join(reasons)}; there are {cores} cores",
        }
    verb = "are" if len(load) > 1 else "is"
    return {"what": f"{names} {verb} the bottleneck", "why": "; ".join(reasons)}


def _find_sequential(program: Mapping[str, Any]) -> dict[str, str]:
    """Return why operators are sequential, by operator."""
    found = program.get("sequential", ())
    return {entry["operator"]: entry["why"] for entry in found}


def _find_hot_keys(
    program: Mapping[str, Any], sample: Sample, operators: Sequence[str]
) -> Sequence[str]:
    """Return the hot keys of the region of some operators, as they are shown."""
    regions = {
        one.get("region")
        for one in program.get("operator_list", ())
        if one["name"] in operators
    }
    hot = sample.get("hot_keys", {})
    return [key for region in regions & set(hot) for key in hot[region]]


def _describe_skew(load: Mapping[str, Any], hot: Sequence[str]) -> list[str]:
    """Return what the busiest replica does, if it stands out, and the hot keys.

    >>> _describe_skew({"skew": 7.0, "busy": 0.13}, ["'B'"])
    ['its busiest replica has 7.0 times the mean work, 91% of the time', "hot key 'B'"]
    """
    if load["skew"] <= SKEWED:
        return []
    work = f"its busiest replica has {load['skew']:.1f} times the mean work"
    if "busy" in load:
        work += f", {min(1.0, load['busy'] * load['skew']):.0%} of the time"
    return [
        work,
        *([f"hot {'keys' if hot[1:] else 'key'} {_join(hot)}"] if hot else []),
    ]


def _describe_fused(
    program: Mapping[str, Any],
    load: Mapping[str, Any],
    operator: str,
    share: float,
    busy: float,
    *,
    hot: Sequence[str] = (),
) -> dict[str, str]:
    """Say which of the operators of an element takes most of its time.

    >>> program = {"sequential": [{"operator": "best", "why": "assigns a global"}]}
    >>> _describe_fused(program, {"replicas": 1, "skew": 1.0}, "best", 0.9, 0.97)["why"]
    "it takes 90% of its thread's time, and the thread is busy 97% of the time; it runs \
on one thread: assigns a global"
    """
    several = load["replicas"] > 1
    whose = (
        f"the time of its {load['replicas']} replicas"
        if several
        else "its thread's time"
    )
    who = "they are" if several else "the thread is"
    reasons = [
        f"it takes {share:.0%} of {whose}, and {who} busy {busy:.0%} of the time"
    ]
    reasons += _describe_skew(load, hot)
    why = _find_sequential(program).get(operator)
    if why is not None:
        reasons.append(f"it runs on one thread: {why}")
    return {"what": f"{operator} is the bottleneck", "why": "; ".join(reasons)}


def _join(names: Sequence[str]) -> str:
    """Return some names as a phrase, the first few of many.

    >>> _join(["a", "b", "c"]), _join(list("abcdef"))
    ('a, b and c', 'a, b, c and 3 more')
    """
    most = 4
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
