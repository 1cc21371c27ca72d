"""How many replicas a region needs: a queue with so many servers.

An item waits if all replicas are busy, and then as long as it takes until one of them is
free for it; how long that is at most, for a given share of the items, is told by the
usual approximation of a queue with any arrivals and services (Allen and Cunneen). It is
right where it matters, close to full load, and there it is steep: so the number of
replicas that it gives does not depend much on how exact it is.
"""

from __future__ import annotations

import math


def wait_s(load: float, degree: int, service_s: float, quantile: float) -> float:
    """Return how long a share of the items waits at most; `load` in busy replicas.

    That is where arrivals and services are as random as can be; where they are not, it
    is so much less as they are less variable.

    >>> round(wait_s(0.5, 1, 0.01, 0.99), 4), wait_s(2.5, 2, 0.01, 0.99)
    (0.0782, inf)
    """
    if load >= degree:
        return math.inf
    waiting = erlang_c(load, degree)
    if waiting <= 1 - quantile:
        return 0.0
    each_s = service_s / (degree - load)
    return each_s * math.log(waiting / (1 - quantile))


def erlang_c(load: float, servers: int) -> float:
    """Return which share of the items finds all servers busy.

    >>> erlang_c(0.5, 1), round(erlang_c(2.0, 3), 3)
    (0.5, 0.444)
    """
    if load >= servers:
        return 1.0
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = load * blocked / (n + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))
