"""How each kind of operator is executed: one kernel per kind."""
