"""Verdicts of the analysis, checked while the program runs."""
