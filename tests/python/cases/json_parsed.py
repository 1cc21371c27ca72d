# map | stateless
import json


def operator(item):
    parsed = json.loads(item)
    parsed["seen"] = True
    return json.dumps(parsed)
