# map | global at 9: clock
from datetime import datetime


def operator(text: str):
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.now()
