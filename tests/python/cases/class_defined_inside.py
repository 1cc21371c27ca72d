# map | global at 3: ClassDef
def operator(item):
    class Box:
        held = item

    return Box
