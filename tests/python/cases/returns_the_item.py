# map | stateless | forwards all
def operator(item):
    same = item
    if same:
        return same
    return item
