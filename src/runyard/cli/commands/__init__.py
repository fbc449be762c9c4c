"""What may be written on a command line: one light module per command, which names the function that does the work."""
