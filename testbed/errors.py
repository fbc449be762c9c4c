"""The one error of the testbed."""


class TestbedError(Exception):
    """An error for the user: what is wrong, why, and what to do, in one line."""

    __test__ = False  # not a test class, whatever pytest thinks of its name
