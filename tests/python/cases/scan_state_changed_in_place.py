# scan by a | keyed | forwards all
initial = []


def operator(state, item):
    state.append(item.n)
    return state, item
