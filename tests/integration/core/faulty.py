"""`runyard` with a fault in it: values of secrets whose name is `broken` cannot be stored or read."""

import sys
from typing import Any

from runyard.cli.main import main
from runyard.store.secrets import SqlSecrets


def break_store() -> None:
    """Let the store fail as nobody foresaw."""
    put, find = SqlSecrets.put, SqlSecrets.find

    async def put_or_fail(self: SqlSecrets, value: Any) -> None:
        if value.name == "broken":
            raise RuntimeError("the disk is on fire")
        await put(self, value)

    async def find_or_fail(self: SqlSecrets, project: str, name: str) -> Any:
        if (project, name) == ("demo", "on-fire"):
            raise RuntimeError("the disk is on fire")
        return await find(self, project, name)

    SqlSecrets.put = put_or_fail  # type: ignore[method-assign]
    SqlSecrets.find = find_or_fail  # type: ignore[method-assign]


if __name__ == "__main__":
    break_store()
    sys.exit(main())
