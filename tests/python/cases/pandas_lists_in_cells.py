# map | global at 9
import pandas as pd

HELD = pd.Series([[], []])


def operator(item: str):
    words = HELD.iloc[0]
    words += [item]
    return len(words)
