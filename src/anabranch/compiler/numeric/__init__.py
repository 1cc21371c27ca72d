"""Which operators of fixed rates compute with numbers alone, and as what code."""
