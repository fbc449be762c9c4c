"""Makes the fixtures of the testbed, the order of tests and the report of their times known to every test."""

pytest_plugins = ["testbed.pytest_plugin", "tests.schedule", "tests.time_report"]
