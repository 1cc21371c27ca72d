"""Checks of the analysis's verdicts while the program runs."""
