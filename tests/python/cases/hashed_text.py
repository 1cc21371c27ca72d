# map | stateless
import hashlib


def operator(item):
    return hashlib.sha256(item.encode()).hexdigest()
