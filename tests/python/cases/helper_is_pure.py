# map | stateless
def clean(text):
    return text.strip().lower()


def operator(item):
    return clean(item.name)
