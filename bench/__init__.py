"""Benchmarks, in a folder for each subject; `harness` is what they share.

`anabranch bench` lists them, and `anabranch bench safe/fig7` runs bench/safe/fig7.py; so
does `python -m bench.safe.fig7` in the root of the repository.
"""
