"""`runyard server` as a whole: real processes, both databases."""
