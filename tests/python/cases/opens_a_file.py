# map | global at 3: input or output
def operator(item):
    with open(item) as file:
        return file.read()
