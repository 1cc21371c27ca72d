# map | global at 6: environ
import os


def operator(item):
    return os.environ["HOME"], item
