# flat_map | stateless | push 0..1
import json


def operator(line: str):
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        return
    if not isinstance(record, dict):
        return
    tags = record.setdefault("tags", [])
    tags.append("decoded")
    record["size"] = len(line)
    yield record
