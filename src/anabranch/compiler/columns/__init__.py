"""Columns: user functions as kernels over Arrow columns, exact to the last bit."""
