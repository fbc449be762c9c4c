"""The few apiserver calls that building a cluster needs.

On the standard library, on purpose: the testbed must not stand on the client that it exists to test.
"""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

from testbed.errors import TestbedError

Object = dict[str, Any]


class Api:
    """An apiserver and the identity that speaks to it."""

    def __init__(self, server: str, *, ca_file: Path, token: str) -> None:
        self._server = server
        self._token = token
        # No proxy: the cluster's addresses are this machine's own.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(ca_file))),
        )

    def get(self, path: str, *, timeout_seconds: float = 5) -> Any:
        """GET a path; JSON where the answer is JSON, else text."""
        return self._call("GET", path, timeout_seconds=timeout_seconds)

    def is_ready(self) -> bool:
        """Whether the apiserver answers and calls itself ready."""
        try:
            return bool(self.get("/readyz", timeout_seconds=2) == "ok")
        except OSError:
            return False

    def apply(self, path: str, obj: Object) -> Any:
        """Create or update the object at its own path. Idempotent; retried while the server settles."""
        return self._settle(
            lambda: self._call(
                "PATCH",
                f"{path}?fieldManager=testbed&force=true",
                body=obj,
                content_type="application/apply-patch+yaml",
            )
        )

    def merge(self, path: str, patch: Object) -> Any:
        """Merge-patch what is at a path. Idempotent."""
        return self._call("PATCH", path, body=patch, content_type="application/merge-patch+json")

    def delete(self, path: str) -> None:
        """Request the deletion of an object; one that is already gone counts as deleted. Does not wait."""
        try:
            self._call("DELETE", path)
        except FileNotFoundError:
            return

    def _settle(self, call: Callable[[], Any]) -> Any:
        """Retry a call for some seconds: an apiserver that has just started refuses what it will soon accept."""
        deadline = time.monotonic() + 15
        while True:
            try:
                return call()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise TestbedError(f"the apiserver refused the testbed's own objects: {error}") from error
                time.sleep(0.2)

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        content_type: str = "application/json",
        timeout_seconds: float = 10,
    ) -> Any:
        request = urllib.request.Request(
            self._server + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": content_type},
        )
        try:
            with self._opener.open(request, timeout=timeout_seconds) as response:
                text = response.read().decode()
                is_json = response.headers.get_content_type() == "application/json"
        except urllib.error.HTTPError as error:
            with error:
                kind = FileNotFoundError if error.code == HTTPStatus.NOT_FOUND else OSError
                raise kind(f"{method} {path}: {error.code} {error.read(400).decode(errors='replace')}") from error
        return json.loads(text) if is_json else text
