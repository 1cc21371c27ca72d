# map | global at 10: changes
import json

EMPTY = {"tags": []}


def operator(line: str):
    record = json.loads(line)
    tags = record.get("tags", EMPTY["tags"])
    tags.append("decoded")
    return tags
