# scan by a | global at 7: shared
initial = None
shared = []


def operator(state, item):
    (state or []).append(item)
    return shared, item
