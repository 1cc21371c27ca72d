"""How several streams become one in the order of the sequential run: one way per file."""
