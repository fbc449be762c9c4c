"""Asking an apiserver what it would make of objects: server-side dry runs, many at a time, answers in full.

`runyard.kube` cuts messages and logs warnings; here both are compared to the letter.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from runyard.kube.config import load_kubeconfig
from runyard.kube.tls import build_ssl_context
from testbed.cluster import Cluster

IN_FLIGHT = 16


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    message: str
    warnings: tuple[str, ...]

    @property
    def is_accepted(self) -> bool:
        return self.status in (200, 201)

    @property
    def is_unreadable(self) -> bool:
        """Refused before any admission plugin was asked: not decoded, or not valid."""
        return self.status in (400, 422)

    def find_violations(self) -> str | None:
        """What the PodSecurity plugin holds against it, if it is what refused."""
        found = re.fullmatch(
            r'.* is forbidden: violates PodSecurity "[a-z]+:[a-z0-9.]+": (.*)', self.message, re.DOTALL
        )
        return found[1] if self.status == 403 and found else None


class Admission:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._slots = asyncio.Semaphore(IN_FLIGHT)

    @classmethod
    @asynccontextmanager
    async def connect(cls, cluster: Cluster) -> AsyncIterator["Admission"]:
        config = load_kubeconfig(cluster.kubeconfig)
        credential = await config.credentials.get()
        tls = build_ssl_context(ca=config.ca, certificate=credential.certificate, skip_verify=False)
        headers = {"Authorization": credential.authorization} if credential.authorization else {}
        connector = aiohttp.TCPConnector(ssl=tls, limit=IN_FLIGHT)
        async with aiohttp.ClientSession(config.server, connector=connector, headers=headers) as session:
            yield cls(session)

    async def ask(self, path: str, body: dict[str, Any], *, method: str = "POST", is_dry_run: bool = True) -> Answer:
        """Create (or PUT) an object, with unknown fields refused."""
        params = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if is_dry_run else {})
        data = json.dumps(body).encode()
        content = {"Content-Type": "application/json"}
        async with (
            self._slots,
            self._session.request(method, path, params=params, data=data, headers=content) as answer,
        ):
            document = await answer.json()
            message = document.get("message", "") if answer.status >= 400 else ""
            return Answer(answer.status, message, tuple(map(_read_warning, answer.headers.getall("Warning", ()))))

    async def ask_all(self, questions: Iterable[tuple[str, dict[str, Any]]]) -> list[Answer]:
        return await asyncio.gather(*(self.ask(path, body) for path, body in questions))

    async def read(self, path: str) -> Any:
        async with self._session.get(path) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()


def _read_warning(header: str) -> str:
    found = re.fullmatch(r'299 - "(.*)"', header, re.DOTALL)
    return re.sub(r"\\(.)", r"\1", found[1]) if found else header
