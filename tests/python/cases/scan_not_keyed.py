# scan | global | push 1..1
initial = 0


def operator(state, item):
    return state + 1, item
