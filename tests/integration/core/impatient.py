"""`runyard` that waits three seconds, not half a minute, for the head of a request."""

import sys

from runyard.api import idle_connections
from runyard.cli.main import main

if __name__ == "__main__":
    idle_connections.HEAD_SECONDS = 3.0
    sys.exit(main())
