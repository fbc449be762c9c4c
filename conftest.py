"""Makes the testbed's fixtures known to every test."""

pytest_plugins = ["testbed.pytest_plugin"]
