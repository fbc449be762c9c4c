"""Records the session anew, and makes the still of it."""

from pathlib import Path

from examples.recording.session import TITLE, record_session
from examples.recording.still import render_still
from examples.recording.terminal import read_cast

HERE = Path(__file__).parent


def main() -> None:
    """Write both files."""
    cast = record_session().to_cast(title=TITLE)
    (HERE / "session.cast").write_text(cast)
    (HERE / "session.svg").write_text(render_still(read_cast(cast)))
    print(f"written: {HERE}/session.cast, {HERE}/session.svg")


if __name__ == "__main__":
    main()
