# filter | stateless
def make():
    allowed = ["a", "b"]

    def operator(item):
        return item in allowed

    return operator


operator = make()
