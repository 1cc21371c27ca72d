# map | global at 11: UNMATCHED
import re

LINE = re.compile(r"(\S+) (\S+)")
UNMATCHED = []


def operator(line: str):
    found = LINE.match(line)
    if found is None:
        UNMATCHED.append(line)
        return None
    return found.groups()
