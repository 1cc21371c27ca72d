"""Sources and sinks: the public base classes, and one file per system."""
