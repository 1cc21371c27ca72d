# scan by a | global at 7: seen
initial = 0
seen = []


def operator(state, item):
    seen.append(item)
    return state + 1, len(seen)
