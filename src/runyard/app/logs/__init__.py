"""Reading and following the logs of runs."""
