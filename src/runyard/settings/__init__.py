"""What the operator chose: flags, then `RUNYARD_*` variables, then a settings file, then defaults.

The only reader of the environment. Start in `table.py`, which has a row for every setting; `values.py` reads one value,
`reading.py` puts the layers together, `checks.py` looks at settings that bear on each other. Everything that is wrong
is told at once. May import `spec`; the command line makes its options from the table.
"""

from runyard.settings.loader import Loaded, read_settings
from runyard.settings.settings import Settings
from runyard.settings.table import SETTINGS, Setting

__all__ = ["SETTINGS", "Loaded", "Setting", "Settings", "read_settings"]
