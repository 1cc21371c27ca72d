"""How items are written to files: whole, or not at all."""
