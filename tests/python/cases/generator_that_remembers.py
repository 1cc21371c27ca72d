# flat_map | global: generator
def numbering():
    n = 0
    while True:
        n += 1
        yield n


NUMBERS = [numbering()]


def operator(line):
    for word in line.split():
        for source in NUMBERS:
            yield next(source), word
