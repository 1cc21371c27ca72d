# flat_map | stateless | push 0..
def parsed(fields):
    return (float(f) for f in fields if f.strip())


def clipped(numbers, low=0.0, high=100.0):
    for n in numbers:
        yield min(max(n, low), high)


def operator(line):
    total = 0.0
    for n in clipped(parsed(line.split(";")), high=50.0):
        total += n
        yield total
