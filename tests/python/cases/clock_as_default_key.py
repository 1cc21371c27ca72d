# map | global: clock
import time


def operator(items: list[int]):
    return sorted(items, key=lambda _: time.monotonic_ns())
