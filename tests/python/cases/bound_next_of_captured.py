# map | global at 7: ticket
import itertools

ticket = itertools.count().__next__

def operator(item):
    return ticket(), item
