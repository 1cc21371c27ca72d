# flat_map | stateless | push 0..
import re

WORD = re.compile(r"\w+")


def operator(item):
    return [match.group(0) for match in WORD.finditer(item)] + re.findall("x", item)
