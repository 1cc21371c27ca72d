"""What goes from process to process: code, modules and values, and under which names."""
