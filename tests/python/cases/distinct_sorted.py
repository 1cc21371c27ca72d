# map | stateless
def operator(line: str):
    words = set(line.lower().split())
    short = {w for w in words if len(w) < 4}
    common = words & {"a", "the"}
    return sorted(words - short), len(short), "the" in common, sorted(w[::-1] for w in words)
