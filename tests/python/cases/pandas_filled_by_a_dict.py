# map | stateless
import pandas as pd


def operator(rows: str):
    table = pd.DataFrame([{"k": rows, "v": None}]).fillna({"v": 0.0})
    table["w"] = table["v"] * 2
    named = table.rename(columns={"w": "double"}).astype({"v": "float64"})
    return named.sort_values("double").head(1).to_dict("records")
