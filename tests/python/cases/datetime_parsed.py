# map | stateless
from datetime import datetime, timedelta


def operator(item):
    return datetime.fromisoformat(item) + timedelta(days=1)
