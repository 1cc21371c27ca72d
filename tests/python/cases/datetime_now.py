# map | global at 6: now
from datetime import datetime


def operator(item):
    return datetime.now(), item
