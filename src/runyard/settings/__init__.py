"""The server's settings. Precedence: flags, `RUNYARD_*` variables, settings file, defaults.

The only reader of the environment. Start in `table.py`, which has one row per setting. `value_readers.py` parses one
value, `loader.py` merges the layers, `checks.py` checks combinations of settings. All problems are reported at once.
May import `spec`; the command line builds its options from the table.
"""

from runyard.settings.loader import Loaded, read_settings
from runyard.settings.settings import Settings
from runyard.settings.table import SETTINGS, Setting

__all__ = ["SETTINGS", "Loaded", "Setting", "Settings", "read_settings"]
