"""Operators of fixed rates that compute with plain numbers, as compiled code."""
