# map | global at 8: seen
seen = []

class Money:
    def __init__(self, n):
        self.n = n
    def __add__(self, other):
        seen.append(other)
        return Money(self.n)

def operator(item):
    return item.price + item.fee
