"""Examples: one folder each, with a README. `python -m examples.demo` is `make demo`."""
