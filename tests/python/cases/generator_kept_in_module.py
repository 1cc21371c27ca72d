# map | global
def counting():
    n = 0
    while True:
        sent = yield n
        n += sent or 1


COUNTER = counting()
next(COUNTER)


def operator(item: int):
    return COUNTER.send(item)
