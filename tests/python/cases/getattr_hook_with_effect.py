# map | global at 5: seen
seen = []
class Lazy:
    def __getattr__(self, name):
        seen.append(name)
        return name

def operator(item):
    return item.anything
