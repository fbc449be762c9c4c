"""Asks a served model, from a run of its own: the address of a service works for every pod of the cluster.

The handler is `ask`.
"""

import json
import urllib.request
from typing import Any


def ask(url: str, readings: dict[str, float]) -> Any:
    """The answer of the service to these readings."""
    request = urllib.request.Request(
        f"http://{url}", json.dumps(readings).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        answer = json.load(response)
    print(f"{url} answers {answer}")
    return answer
