"""Makes known to every test: fixtures of the testbed, the order of tests, their times, and which of them failed."""

pytest_plugins = ["testbed.pytest_plugin", "tests.schedule", "tests.time_report", "tests.second_attempt"]
