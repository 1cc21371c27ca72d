# map | stateless
import numpy as np


class Scaler:
    def fit(self, rows):
        self.mean = rows.mean(axis=0)
        self.table = {"fitted": True}
        return self

    def transform(self, row):
        return (row - self.mean) * self.table["fitted"]


scaler = Scaler().fit(np.array([[1.0, 2.0], [3.0, 4.0]]))


def operator(item):
    return scaler.transform(np.array(item)).tolist()
