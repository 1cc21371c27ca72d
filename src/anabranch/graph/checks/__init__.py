"""What can be wrong with a program: one file for each kind of fault."""
