"""Merging several streams into one in the order of the sequential run: one way per
file.
"""
