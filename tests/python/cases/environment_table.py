# map | global
import os


def operator(item):
    return item + len(os.environ.get("HOME", ""))
