# map | global at 8: calls
import functools

def counted(function):
    calls = []
    @functools.wraps(function)
    def wrapper(item):
        calls.append(item)
        return function(item)
    return wrapper

@counted
def operator(item):
    return item + 1
