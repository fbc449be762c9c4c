"""Compact an etcd to its current revision: `python -m testbed.etcd URL` prints that revision.

Runs inside a cluster's network namespace, where alone its etcd listens.
"""

import json
import sys
import urllib.request
from typing import Any


def call(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """One call to etcd's JSON gateway."""
    request = urllib.request.Request(url + path, data=json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=10) as response:
        answer: dict[str, Any] = json.load(response)
        return answer


def compact(url: str) -> int:
    """Forget every revision before the current one."""
    revision = int(call(url, "/v3/kv/range", {"key": "AA==", "limit": "1"})["header"]["revision"])
    call(url, "/v3/kv/compaction", {"revision": str(revision), "physical": True})
    return revision


if __name__ == "__main__":
    print(compact(sys.argv[1]))
