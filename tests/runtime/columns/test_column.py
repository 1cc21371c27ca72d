"""Columns of values: as objects, and as arrays."""

from anabranch.plan.column_kernels import ColumnShape
from anabranch.runtime.columns.column import BatchColumn
from anabranch.runtime.columns.held_state import ColumnBatch

SHAPE = ColumnShape(("int",))


def list_column(values):
    return BatchColumn(SHAPE, {}, listed=values)


def test_what_is_kept_in_arrays_has_no_objects():
    batch = ColumnBatch(SHAPE, (list_column([3, 1, 2]),), 3, listed=[3, 1, 2])

    kept = batch.in_arrays()

    assert (None, False) == (kept.listed, kept.columns[0].is_listed)
    assert [[3, 1, 2]] == [array.tolist() for array in kept.columns[0].arrays]


def test_values_of_another_type_stay_objects():
    assert list_column([3, "1"]).in_arrays().is_listed
