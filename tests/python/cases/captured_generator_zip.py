# map | global at 10: source
def endless():
    while True:
        yield 1


source = endless()

def operator(item):
    return [pair for pair in zip(item, source)]
