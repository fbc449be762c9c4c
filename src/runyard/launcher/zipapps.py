"""The launcher as one file that any Python 3.10 or later starts: `python -u launcher.pyz`.

`python -m runyard.launcher.zipapps FILE` writes it; the recipe of the launcher image does.

The same source and the same Python give the same bytes, so the name of the file can hold their hash. Each module is in
it as source, and compiled by the Python that builds the file. Other versions of Python ignore what is compiled.
"""

import importlib.util
import io
import marshal
import sys
import zipfile
from pathlib import Path

ARCHIVE_PACKAGE = "runyard_launcher"
"""The package's name in the zipapp. `runyard` would hide the SDK that a function's environment may have."""
_TIME = (1980, 1, 1, 0, 0, 0)
_UNCHECKED_HASH = (1).to_bytes(4, "little")
"""The flags of PEP 552: the source beside the compiled module is not read to compare them."""
_MARSHAL_VERSION = 2
"""The last one without references between objects, which differ from one compilation to the next."""
_MAIN = f"""import sys

from {ARCHIVE_PACKAGE}.container_init import main

if __name__ == "__main__":
    sys.exit(main())
"""


def build_zipapp() -> bytes:
    """The zipapp of this package, byte for byte the same for the same source."""
    folder = Path(__file__).parent
    paths = folder.rglob("*.py")
    files = {f"{ARCHIVE_PACKAGE}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in paths}
    files |= {f"{name}c": _compile(name, source) for name, source in files.items()}
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


def _compile(name: str, source: bytes) -> bytes:
    """The content of a .pyc file. Without it, each start would compile all modules, which takes 40 ms."""
    code = compile(source, name, "exec", dont_inherit=True)
    header = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + importlib.util.source_hash(source)
    return header + marshal.dumps(code, _MARSHAL_VERSION)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(build_zipapp())
