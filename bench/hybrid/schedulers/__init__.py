"""The schedulers that the paper on hybrid scheduling compares itself with, and its own.

All of them run the same operators: a program's pipeline, operator by operator, as the
kernels of the sequential engine define them. They differ in who runs when.
"""
