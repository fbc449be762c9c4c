"""The benchmarks: that they still run, with the smallest sizes. Their figures are never asserted."""
