"""The launcher as one file that any Python 3.10 or later starts: `python -u launcher.pyz`.

The same source gives the same bytes, so the name of the file can hold their hash.
"""

import io
import zipfile
from pathlib import Path

ARCHIVE_PACKAGE = "runyard_launcher"
"""The package's name in the zipapp. `runyard` would hide the SDK that a function's environment may have."""
_TIME = (1980, 1, 1, 0, 0, 0)
_MAIN = (
    f'import sys\n\nfrom {ARCHIVE_PACKAGE}.program import main\n\nif __name__ == "__main__":\n    sys.exit(main())\n'
)


def build_zipapp() -> bytes:
    """The zipapp of this package, byte for byte the same for the same source."""
    folder = Path(__file__).parent
    files = {f"{ARCHIVE_PACKAGE}/{path.name}": path.read_bytes() for path in folder.glob("*.py")}
    files["__main__.py"] = _MAIN.encode()
    content = io.BytesIO()
    # Stored, not deflated: zlib's bytes differ between its versions, and an import need not inflate.
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, files[name])
    return content.getvalue()
