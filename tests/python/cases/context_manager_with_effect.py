# map | global at 6: depth
depth = []

class Deeper:
    def __enter__(self):
        depth.append(1)
    def __exit__(self, *why):
        depth.pop()

def operator(item):
    with Deeper():
        return item
