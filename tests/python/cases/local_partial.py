# map | stateless
from functools import partial, reduce


def scaled(factor, value):
    return factor * value


def operator(values: list[float]):
    double = partial(scaled, 2)
    doubled = list(map(double, values))
    product = reduce(lambda one, two: one * two, doubled, 1.0)
    return double(product), any(v > 1 for v in doubled), dict(enumerate(doubled))
