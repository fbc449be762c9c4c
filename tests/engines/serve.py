"""`python -m tests.engines.serve server …` is `runyard server …` with the in-memory engine."""

import sys
from functools import partial

from runyard import bootstrap
from runyard.cli.main import main
from tests.engines.automatic import AutomaticEngine

if __name__ == "__main__":
    bootstrap.serve = partial(bootstrap.serve, engine=AutomaticEngine())
    sys.exit(main())
