# map | global
def make():
    n = 0

    def middle():
        def inner(item):
            nonlocal n
            n += 1
            return item + n

        return inner

    return middle()


operator = make()
