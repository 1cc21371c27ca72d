# map | global: changes
import pandas as pd

ROWS = pd.Series([[], []], index=["a", "b"])


def operator(item: str):
    row = ROWS[item]
    row.append(item)
    return len(row)
