"""Runs operators of fixed rates over arrays of numbers, compiled by Numba."""
