"""What keeps a simulated program from going faster, in words for its user."""

from __future__ import annotations

from collections.abc import Collection

from anabranch.control.simulate.in_epochs import SimulatedEpochs
from anabranch.control.simulate.threads import SimulatedProgram
from anabranch.control.throughput.model import Thread

CLOSE = 0.95  # of the time for an item: then this is what it takes
PART = 0.8  # of an epoch: a level that takes less is not all that counts


def describe_limit(program: SimulatedProgram) -> str:
    """Return what limits a program on threads of one process.

    >>> from anabranch.control.throughput.model import ItemCosts
    >>> at = {("read",): 0.5, ("read", "a"): 0.5}
    >>> describe_limit(SimulatedProgram(ItemCosts(at, locked_s=1.0), cores=4))
    "the interpreter's lock: 100% of the work needs it, whatever the number of threads"
    """
    costs, period_s = program.costs, 1 / program.items_per_s
    threads = program.find_threads()
    if costs.locked_s >= CLOSE * period_s:
        share = costs.locked_s / costs.whole_s
        return (
            f"the interpreter's lock: {share:.0%} of the work needs it, whatever the "
            "number of threads"
        )
    if costs.serial_s >= CLOSE * period_s:
        return "work that only one thread at a time can do"
    work_s = sum(one.each_s * one.replicas for one in threads.values())
    if work_s / program.cores >= CLOSE * period_s:
        return _busy(program.cores)
    if len(threads) == 1 and costs.waiting:
        return (
            "the interpreter's lock: further threads would lose more by waiting for it"
        )
    name, busiest = max(threads.items(), key=lambda pair: pair[1].each_s)
    if busiest.each_s >= CLOSE * period_s:
        return f"the thread of {_describe_thread(name, busiest)}"
    return "threads that wait for the interpreter's lock"


def describe_limit_of_epochs(program: SimulatedEpochs) -> str:
    """Return what limits a program whose epochs go through levels."""
    name, busiest, share, busy = program.slowest()
    if busy >= CLOSE:
        return _busy(program.cores)
    elements = program.elements
    element = elements.of.get(name, name)
    inside = [one for one, at in elements.of.items() if at == element]
    text = _names(inside or [name])
    cuts = program.arrangement.ports.intersection(inside)
    if element in elements.replicated:
        text += f": {busiest.replicas} replicas"
    elif cuts:
        text += (
            f": {1 + len(cuts)} workers of an element without replicas, and no further "
            "cut promises a gain"
        )
    elif elements.cuts.isdisjoint(inside):
        text += ": one worker, which can be neither replicated nor cut"
    else:
        text += ": one worker without replicas, and no cut promises a gain"
    if share < PART:
        text += f"; it takes {share:.0%} of an epoch, whose levels follow one another"
    return text


def _busy(cores: int) -> str:
    return "the core" if cores == 1 else f"all {cores} cores are busy"


def _describe_thread(name: str, thread: Thread) -> str:
    routes = sorted(thread.costs, key=len)
    inside = dict.fromkeys(route[-1] for route in routes)
    if thread.replicas > 1:
        return f"{_names(inside or [name])}, with {thread.replicas} replicas"
    if len(inside) <= 1:
        return f"{name}: one operator without replicas cannot be divided"
    return f"{_names(inside)}: no further division promises a gain"


def _names(operators: Collection[str]) -> str:
    """Return operators in words, the first and the last of many.

    >>> _names(["a", "b"]), _names(["a", "b", "c", "d"])
    ('a and b', 'a to d')
    """
    first, *others = operators
    if not others:
        return first
    return f"{first} {'and' if len(others) == 1 else 'to'} {others[-1]}"
