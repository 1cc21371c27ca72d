"""How each source is read: the reference that every engine must agree with."""
