# map | stateless | forwards 
import re
from typing import NamedTuple

LINE = re.compile(r"(?P<host>\S+) \S+ \S+ \[(?P<at>[^\]]+)\] \"(?P<verb>\w+) (?P<path>\S+)")
FALLBACK = ("-", "-", "-", "-")


class Hit(NamedTuple):
    host: str
    verb: str
    path: str


def operator(line: str) -> Hit:
    found = LINE.match(line)
    if found is None:
        return Hit(*FALLBACK[:3])
    parts = found.groupdict()
    return Hit(parts["host"], parts["verb"].upper(), parts.get("path", "/").split("?")[0])
