# map | stateless
class Parser:
    def __init__(self):
        self.words = []

    def feed(self, text):
        self.words.extend(text.split())
        return self


def operator(item):
    parser = Parser()
    parser.feed(item)
    return parser.words
