"""`python -m runyard.launcher`."""

import sys

from .container_init import main

if __name__ == "__main__":
    sys.exit(main())
