"""Credentials from a program: kubeconfig's exec plug-ins, `client.authentication.k8s.io` v1 and v1beta1."""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, BinaryIO

import msgspec

from runyard.kube.credentials import Credential, bearer
from runyard.kube.errors import MESSAGE_CHARACTERS, ConfigError
from runyard.kube.tls import ClientCertificate

logger = logging.getLogger(__name__)

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
DEADLINE_SECONDS = 60.0
_EARLY_SECONDS = 60.0
_EARLY_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """How to call one plug-in; `where` names the kubeconfig entry in messages."""

    command: str
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = API_VERSIONS[0]
    cluster: Mapping[str, Any] | None = None
    install_hint: str = ""
    where: str = "exec plug-in"


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status


class ExecCredentials:
    """Runs the plug-in when there is no credential, shortly before it expires, and once after a 401.

    Concurrent callers share one run. While a credential is still valid, a plug-in that fails is a warning.
    """

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.plugin = plugin
        self._deadline_seconds = deadline_seconds
        self._clock = clock
        self._current: Credential | None = None
        self._expires_at = self._renew_at = float("inf")
        self._run: asyncio.Task[Credential] | None = None

    async def get(self) -> Credential:
        """The current credential, renewed when it is about to expire."""
        if self._current is not None and self._clock() < self._renew_at:
            return self._current
        try:
            return await self._renewed()
        except ConfigError as error:
            if self._current is None or self._clock() >= self._expires_at:
                raise
            logger.warning("keeping the last credential until it expires: %s", error)
            return self._current

    async def renew(self, refused: Credential) -> Credential:
        """A new credential, unless another caller got one since `refused` was sent."""
        if self._current is not None and self._current != refused:
            return self._current
        return await self._renewed()

    async def close(self) -> None:
        """Stop the plug-in if it runs."""
        if self._run is not None:
            self._run.cancel()
            await asyncio.wait({self._run})

    async def _renewed(self) -> Credential:
        run = self._run
        if run is None or run.done():
            run = self._run = asyncio.create_task(self._call())
            # Retrieves the exception, so that asyncio does not warn when every caller has left.
            run.add_done_callback(lambda task: task.cancelled() or task.exception())
        # `wait` leaves the run alone when this caller is cancelled: others wait for it too.
        await asyncio.wait({run})
        if run.cancelled():
            raise ConfigError(f"{self.plugin.where}: closed while `{self.plugin.command}` ran")
        if isinstance(error := run.exception(), ConfigError):
            # Each caller gets its own: it will carry the caller's request.
            raise ConfigError(error.message) from error
        return run.result()

    async def _call(self) -> Credential:
        answer = _decode(await _run(self.plugin, self._deadline_seconds), self.plugin)
        self._current = _credential(answer, self.plugin)
        now, expiration = self._clock(), answer.expiration_timestamp
        self._expires_at = expiration.timestamp() if expiration else float("inf")
        # A fixed margin would call the plug-in before every request where tokens live for seconds.
        early = min(_EARLY_SECONDS, _EARLY_SHARE * max(0.0, self._expires_at - now))
        self._renew_at = self._expires_at - early
        return self._current


async def _run(plugin: ExecPlugin, deadline_seconds: float) -> bytes:
    """The plug-in's standard output. It gets no terminal; past its deadline its whole process group ends.

    Output goes to memory, not through pipes: those stay open while a daemon that the plug-in left behind has them.
    """
    with _memory_file() as output, _memory_file() as complaint:
        process = await _start(plugin, output=output, complaint=complaint)
        try:
            async with asyncio.timeout(deadline_seconds):
                await process.wait()
        except TimeoutError as error:
            message = f"{plugin.where}: `{plugin.command}` gave no answer within {deadline_seconds:g} s"
            raise ConfigError(message) from error
        finally:
            await _end(process)
        if process.returncode != 0:
            text = _content(complaint).decode(errors="replace").strip()[-MESSAGE_CHARACTERS:]
            raise ConfigError(f"{plugin.where}: `{plugin.command}` ended with {process.returncode}: {text}")
        return _content(output)


async def _start(plugin: ExecPlugin, *, output: BinaryIO, complaint: BinaryIO) -> asyncio.subprocess.Process:
    spec = {"interactive": False} | ({"cluster": plugin.cluster} if plugin.cluster is not None else {})
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=complaint,
            env={**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()},
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # asyncio would kill only the program, not its child processes.
        with contextlib.suppress(OSError):
            await _end(await starting)
        raise
    except OSError as error:
        hint = f"\n{plugin.install_hint}" if plugin.install_hint else ""
        raise ConfigError(f"{plugin.where}: cannot run `{plugin.command}`: {error.strerror}{hint}") from error


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _memory_file() -> BinaryIO:
    return os.fdopen(os.memfd_create("runyard-exec", os.MFD_CLOEXEC), "w+b")


def _content(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()


def _decode(output: bytes, plugin: ExecPlugin) -> _Status:
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except (ValueError, RecursionError) as error:  # ValueError: not JSON, not UTF-8, not an ExecCredential
        # Shows neither the output nor the cause: both may contain a token.
        raise ConfigError(f"{plugin.where}: `{plugin.command}` printed no ExecCredential: {error}") from None
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        raise ConfigError(
            f"{plugin.where}: `{plugin.command}` printed {answer.kind} {answer.api_version}, "
            f"expected ExecCredential {plugin.api_version}"
        )
    return answer.status


def _credential(status: _Status, plugin: ExecPlugin) -> Credential:
    certificate, key = status.client_certificate_data, status.client_key_data
    if bool(certificate) != bool(key):
        raise ConfigError(f"{plugin.where}: `{plugin.command}` gave only one of clientCertificateData, clientKeyData")
    pair = ClientCertificate(certificate.encode(), key.encode()) if certificate and key else None
    if not status.token and pair is None:
        raise ConfigError(f"{plugin.where}: `{plugin.command}` gave neither a token nor a client certificate")
    if not status.token:
        return Credential(certificate=pair)
    try:
        return bearer(status.token, certificate=pair)
    except ConfigError as error:
        raise ConfigError(f"{plugin.where}: {error}") from error
