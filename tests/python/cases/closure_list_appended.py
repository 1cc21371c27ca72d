# map | global at 7: changes the captured variable seen
def make():
    seen = []

    def operator(item):
        # the list outlives the call
        seen.append(item)
        return len(seen)

    return operator


operator = make()
