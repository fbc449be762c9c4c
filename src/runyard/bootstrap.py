"""The composition root: from settings to a server that listens. Everything is put together here and nowhere else."""

import asyncio
import gc
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import structlog
import uvicorn
import uvloop
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from runyard.api.application import Application, guard, make_app
from runyard.api.context import LOOPBACK_HOSTS, Limits, Web
from runyard.api.idle_connections import IdleConnections
from runyard.app.core import Core, Options
from runyard.app.loops import DeletionLoop, Loop, Reconciler, RetentionLoop, TriggerLoop, supervise
from runyard.app.model import Run
from runyard.app.retention import Retention
from runyard.app.rules import take_policy, take_profiles
from runyard.app.times import SystemClock
from runyard.auth import Authenticator, Issuer, Passwords
from runyard.logs.backends import open_logs
from runyard.settings import Settings
from runyard.store import SqlStore, open_store
from runyard.telemetry import set_up_logging
from runyard.vault import UnknownKey, open_vault

_ENGINES: Mapping[str, str | None] = {"none": None}
RUN_TOKEN_LIFE = timedelta(days=30)
"""The longest that the issuer gives. A run's token is refused once the run is over, so it may live as long as that."""
BACKLOG = 2048
WATCHED_TICKS = 10
_WATCHED = (H11Protocol, HttpToolsProtocol)
GAUGE_SECONDS = 30.0
log = structlog.get_logger()


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, and leave in order. Raises what is wrong with database, keys or files."""
    set_up_logging(level=settings.log_level, form=settings.log_format)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    async with AsyncExitStack() as stack:
        listening = _listen(settings)
        stack.callback(listening.close)
        _make_folder(settings.data)
        endpoint = settings.endpoint or _name(settings, listening)
        store = await open_store(settings.database)
        stack.push_async_callback(store.close)
        web = await _build(settings, store, endpoint, stack)
        app = make_app(web, lifespan=_make_lifespan(web, _name(settings, listening), settings))
        config = uvicorn.Config(
            guard(app),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=settings.behind_proxy,
            forwarded_allow_ips=list(settings.trusted_proxies) or None,
            timeout_graceful_shutdown=int(settings.drain.total_seconds()),
            ssl_certfile=settings.tls_certificate,
            ssl_keyfile=settings.tls_key,
            lifespan="on",
        )
        await _Server(config, app).serve(sockets=[listening])


class _Server(uvicorn.Server):
    """Says that it drains before it does, so that streams end and load balancers look elsewhere."""

    def __init__(self, config: uvicorn.Config, app: Application) -> None:
        super().__init__(config)
        self._application = app
        self._watch = IdleConnections()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal's handler
        """A first signal drains, a second one ends.

        Nothing is logged here: the signal may have come in the middle of a line. Nor is the signal kept, which
        uvicorn would send itself again at the end: the process would die of it instead of leaving in order.
        """
        self.force_exit = self.should_exit
        self.should_exit = True
        self._application.state.is_draining = True

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if counter % WATCHED_TICKS == 0:
            connections = (one for one in self.server_state.connections if isinstance(one, _WATCHED))
            self._watch.close_stale(connections)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for what is being answered."""
        log.info("server.draining")
        await super().shutdown(sockets)
        if self.force_exit:
            # uvicorn would leave the loops to be cut off, with a traceback.
            await self.lifespan.shutdown()


async def _build(settings: Settings, store: SqlStore, endpoint: str, stack: AsyncExitStack) -> Web:
    logs = open_logs(
        settings.logs,
        s3_endpoint=settings.s3_endpoint,
        s3_region=settings.s3_region,
        s3_access_key=settings.s3_access_key,
        s3_secret_key=settings.s3_secret_key,
    )
    stack.push_async_callback(logs.close)
    await logs.list_streams("nobody")  # a place that cannot be used is told now, not when the first line comes
    is_new = settings.key is None and not settings.key_file.exists()
    core = Core(
        store=store,
        vault=open_vault(settings.key_file, text=settings.key),
        logs=logs,
        clock=SystemClock(),
        options=Options(
            endpoint=endpoint,
            engine=_ENGINES[settings.engine],
            files_store=settings.files_store,
            refresh_token_life=settings.refresh_token_life,
            personal_token_life=settings.personal_token_life,
        ),
    )
    await _take_files(core, settings)
    passwords = Passwords()
    stack.callback(passwords.close)
    issuer = Issuer(core, access_life=settings.access_token_life)
    await _prepare_keys(issuer, settings, is_new=is_new)
    is_open = settings.auth == "open"
    if not is_open:
        await _warn_without_accounts(store)
    return Web(
        core=core,
        authenticator=Authenticator(core, issuer=issuer, passwords=passwords, is_open=is_open),
        issuer=issuer,
        limits=Limits(
            body_bytes=settings.max_body_bytes,
            list_size=settings.max_list,
            streams=settings.max_streams,
            requests_per_second=settings.max_requests,
        ),
        is_open=is_open,
        allowed_hosts=LOOPBACK_HOSTS | {settings.host},
    )


async def _prepare_keys(issuer: Issuer, settings: Settings, *, is_new: bool) -> None:
    """Keys to sign tokens with. Raises `UnknownKey` with what to do where the database belongs to another key."""
    try:
        await issuer.prepare()
    except UnknownKey as error:
        if is_new:
            # It was made by this start, nothing is sealed with it, and it would stand in the way of the right one.
            settings.key_file.unlink()
        place = "RUNYARD_KEY" if settings.key is not None else f"{settings.key_file} (--key-file)"
        raise UnknownKey(f"the database is {error}: give back the key that belongs to it, in {place}") from None


async def _warn_without_accounts(store: SqlStore) -> None:
    async with store.begin(is_read_only=True) as unit:
        if not await unit.accounts.list_accounts():
            log.warning("accounts.none", message="nobody can sign in: stop, and run `runyard user create NAME --admin`")


async def _take_files(core: Core, settings: Settings) -> None:
    warnings = []
    if settings.profiles is not None:
        warnings += await take_profiles(core, read_profile_texts(settings.profiles))
    if settings.policy is not None:
        warnings += await take_policy(
            core, settings.policy.read_text(errors="surrogateescape"), name=str(settings.policy)
        )
    for warning in warnings:
        log.warning("files.doubtful", message=str(warning))


def _make_folder(data: Path) -> None:
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(error.errno, f"the data folder {data} cannot be made: {error.strerror}") from None


def read_profile_texts(place: Path) -> dict[str, str]:
    """The texts of a profile file, or of every `.yaml`, `.yml` and `.json` in a folder, by their names."""
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    wanted = [file for file in files if file.suffix in (".yaml", ".yml", ".json") or not place.is_dir()]
    return {str(file): file.read_text(errors="surrogateescape") for file in wanted if file.is_file()}


def _make_lifespan(web: Web, address: str, settings: Settings) -> Any:
    @asynccontextmanager
    async def lifespan(app: Application) -> AsyncIterator[None]:
        app.state.is_draining = False
        task = asyncio.create_task(_supervise(web, settings), name="loops")
        # What has been loaded stays: whenever the collector looked through it, everybody would wait for a tenth of
        # a second.
        gc.freeze()
        _announce(web, address, settings)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return lifespan


async def _supervise(web: Web, settings: Settings) -> None:
    await supervise(_make_loops(web, settings), count_failure=web.metrics.count_failure)


def _make_loops(web: Web, settings: Settings) -> Mapping[str, Loop]:
    issuer = web.issuer

    async def issue_token(run: Run) -> str:
        signed = await issuer.issue_run_token(run.id, run.project, run.user, RUN_TOKEN_LIFE)
        return str(signed.text)

    reconciler = Reconciler(web.core, None, issue_token=issue_token)
    retention = Retention(runs=settings.keep_runs, logs=settings.keep_logs, audit=settings.keep_audit)
    return {
        "reconcile": reconciler.run,
        "triggers": TriggerLoop(web.core, is_open=web.is_open).run,
        "retention": RetentionLoop(web.core, retention=retention).run,
        "deletions": DeletionLoop(web.core).run,
        "gauges": partial(_measure, web),
    }


async def _measure(web: Web) -> None:
    """Keep the gauges of `/metrics` fresh."""
    while True:
        async with web.core.store.begin(is_read_only=True) as unit:
            web.metrics.set_runs(await unit.runs.count_states())
        await asyncio.sleep(GAUGE_SECONDS)


def _announce(web: Web, address: str, settings: Settings) -> None:
    """Where it listens, for people and programs: on stdout, flushed, whatever the log's format."""
    sys.stdout.write(f"runyard listens on {address}\n")
    if web.is_open:
        sys.stdout.write(
            "!! No accounts: everybody on this machine is admin. Programs only: web pages of others are refused.\n"
            "!! For anything but a laptop use --auth accounts, after `runyard user create --admin NAME`.\n"
        )
    if settings.engine == "none":
        sys.stdout.write("No engine: runs are accepted, resolved and stored, and stay READY.\n")
    sys.stdout.flush()


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sends small answers at once (TCP_NODELAY) only on sockets that say they are TCP.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host.strip("[]"), settings.port))
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise AddressUnusable(f"cannot listen on {settings.host}:{settings.port}: {reason}") from None
    listening.listen(BACKLOG)
    listening.set_inheritable(True)
    return listening


class AddressUnusable(Exception):
    """The address is taken, or not this machine's."""


def _name(settings: Settings, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host and not settings.host.startswith("[") else settings.host
    return f"{'https' if settings.has_tls else 'http'}://{host}:{port}"
