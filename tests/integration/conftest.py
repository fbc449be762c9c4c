"""`version` is the Kubernetes version whose own code is asked."""

from tests.integration.oracle import version

__all__ = ["version"]
