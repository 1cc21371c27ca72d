"""Runs operators in columns: batches of Arrow columns through compiled kernels."""
