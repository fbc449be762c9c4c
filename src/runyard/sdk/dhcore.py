"""DigitalHub's configuration: variables `DHCORE_*`, and `~/.dhcore.ini`, whose refreshed tokens are written back."""

import configparser
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runyard.sdk.contexts import MOST_FILE_BYTES, write_privately
from runyard.sdk.errors import ConfigurationError

ENDPOINT, USER, PASSWORD = "DHCORE_ENDPOINT", "DHCORE_USER", "DHCORE_PASSWORD"
ACCESS, REFRESH, PERSONAL = "DHCORE_ACCESS_TOKEN", "DHCORE_REFRESH_TOKEN", "DHCORE_PERSONAL_ACCESS_TOKEN"
CLIENT_ID, TOKEN_ENDPOINT = "DHCORE_CLIENT_ID", "OAUTH2_TOKEN_ENDPOINT"
NAMES = (ENDPOINT, USER, PASSWORD, ACCESS, REFRESH, PERSONAL, CLIENT_ID, TOKEN_ENDPOINT)
_DEFAULT_SECTION = "__default"


@dataclass(frozen=True, slots=True)
class IniFile:
    """One section of DigitalHub's file."""

    path: Path
    section: str

    def read(self) -> dict[str, str]:
        """The known names and their values; empty if there is none. Raises `ConfigurationError`."""
        parser = self._parse()
        if not parser.has_section(self.section):
            return {}
        found = parser[self.section]
        values = {name: found.get(name.lower()) for name in NAMES}
        return {name: value for name, value in values.items() if value and value != "None"}

    def write_tokens(self, access: str, refresh: str | None) -> None:
        """Store refreshed tokens: the server accepts a refresh token only once."""
        parser = self._parse()
        if not parser.has_section(self.section):
            parser.add_section(self.section)
        parser[self.section][ACCESS.lower()] = access
        if refresh is not None:
            parser[self.section][REFRESH.lower()] = refresh
        text = io.StringIO()
        parser.write(text)
        try:
            write_privately(self.path, text.getvalue())
        except OSError as error:
            raise ConfigurationError(f"{self.path}: cannot be written: {error.strerror or error}") from None

    def _parse(self) -> configparser.ConfigParser:
        parser = configparser.ConfigParser(interpolation=None)
        try:
            with self.path.open(encoding="utf-8") as stream:
                parser.read_string(stream.read(MOST_FILE_BYTES))
        except FileNotFoundError:
            return parser
        except (OSError, UnicodeDecodeError, configparser.Error) as error:
            raise ConfigurationError(f"{self.path}: cannot be read: {error}") from None
        return parser


def find_ini(environ: Mapping[str, str]) -> IniFile:
    """The file and the section that DigitalHub's SDK would use."""
    given = environ.get("DH_CONFIG")
    path = Path(given) if given else Path(environ.get("HOME") or Path.home()) / ".dhcore.ini"
    section = environ.get("DH_NAME")
    if section is None:
        parser = configparser.ConfigParser(interpolation=None)
        try:
            with path.open(encoding="utf-8") as stream:
                parser.read_string(stream.read(MOST_FILE_BYTES))
            section = parser.defaults().get("current_environment")
        except (OSError, UnicodeDecodeError, configparser.Error):
            section = None
    return IniFile(path, section or _DEFAULT_SECTION)
