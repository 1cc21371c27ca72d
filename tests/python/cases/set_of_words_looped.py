# flat_map | global at 4: order
def operator(line: str):
    words = {word.lower() for word in line.split()}
    for word in words:
        yield word
