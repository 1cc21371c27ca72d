# map | stateless
import json


def flatten(value, prefix=""):
    if isinstance(value, dict):
        flat = {}
        for name, inner in value.items():
            flat.update(flatten(inner, f"{prefix}{name}."))
        return flat
    if isinstance(value, list):
        return {prefix[:-1]: json.dumps(value, sort_keys=True)}
    return {prefix[:-1]: value}


def operator(line: str):
    return flatten(json.loads(line))
