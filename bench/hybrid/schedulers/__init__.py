"""The schedulers that the paper on hybrid scheduling compares itself with.

No engine of ours schedules like them, so they are written here. They run the operators of
a program as the kernels of the sequential engine define them, and differ in who runs when.
"""
