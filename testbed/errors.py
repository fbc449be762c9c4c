"""The one error of the testbed."""


class TestbedError(Exception):
    """Something that the person at the terminal must know: what, why, and what to do, in one line."""

    __test__ = False  # not a test class, whatever pytest thinks of its name
