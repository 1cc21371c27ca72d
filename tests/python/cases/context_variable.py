# map | global
import contextvars

LAST = contextvars.ContextVar("last", default=None)


def operator(item):
    before = LAST.get()
    LAST.set(item)
    return before
