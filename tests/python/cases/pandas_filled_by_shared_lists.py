# map | global at 8: changes
import pandas as pd

WORDS = {"a": [], "b": []}


def operator(item: str):
    pd.Series(["a", "b"]).map(WORDS).iloc[0].append(item)
    return len(WORDS["a"])
