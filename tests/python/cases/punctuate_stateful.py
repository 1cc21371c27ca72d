# punctuate | global at 7: n
n = 0


def operator(item):
    global n
    n += 1
    return n % 10 == 0
