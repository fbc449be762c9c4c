"""Declarations of commands and options: one light module per command, which names the function that does the work."""
