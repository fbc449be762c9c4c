"""The composition root: builds the server from the settings. Adapters are wired together only here."""

import asyncio
import ctypes
import errno
import gc
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import structlog
import uvicorn
import uvloop

from runyard.api.application import Application, add_middleware, make_app
from runyard.api.connection_limits import ConnectionLimits, limit_by_descriptors
from runyard.api.context import LOOPBACK_HOSTS, Limits, ServerContext
from runyard.api.http_connections import LimitedProtocol
from runyard.api.idle_connections import IdleConnections
from runyard.api.tls_handshakes import TlsHandshake
from runyard.api.websocket_connections import WEBSOCKET_OPTIONS
from runyard.app.core import Core, Options
from runyard.app.engine import Engine, EngineError, ImagePulling, Place
from runyard.app.loops import (
    DeletionLoop,
    Loop,
    Reconciler,
    RegistryLoop,
    RetentionLoop,
    Sweeper,
    TriggerLoop,
    VolumeLoop,
    supervise,
)
from runyard.app.model import Run
from runyard.app.ports import Store
from runyard.app.retention import Retention
from runyard.app.rules import import_policy, import_profiles
from runyard.app.times import SystemClock
from runyard.auth import Authenticator, Issuer, Passwords
from runyard.engines.local.local_engine import LocalEngine
from runyard.engines.local.local_settings import LocalSettings
from runyard.files import open_blobs, open_files_store
from runyard.logs.backends import open_logs
from runyard.settings import Settings
from runyard.store import SqlStore, open_store
from runyard.telemetry import set_up_logging
from runyard.vault import UnknownKey, open_vault

RUN_TOKEN_LIFE = timedelta(days=30)
"""The longest lifetime that the issuer allows. A run's token is refused once the run has ended."""
BACKLOG = 2048
STARTUP_FAILED = 3
"""Exit code, as uvicorn's, if the application cannot start."""
IDLE_CHECK_TICKS = 10
_PORT_CURES = {
    errno.EADDRINUSE: "; choose another port with --port",
    errno.EACCES: "; choose a port above 1023 with --port",
}
GAUGE_SECONDS = 30.0
ACCOUNTS_SECONDS = 2.0
"""How soon a server without accounts notices that the first one was created."""
_M_MMAP_THRESHOLD = -3  # of malloc.h
_LARGE_BYTES = 128 * 1024

log = structlog.get_logger()


def serve(settings: Settings, *, engine: Engine | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then shut down gracefully. Raises if the database, a key or a file is unusable.

    `engine` executes the runs instead of the one that the settings name; it is closed at the end.
    """
    gc.freeze()  # what was imported: else collections walk through it during the start
    set_up_logging(level=settings.log_level, form=settings.log_format)
    map_large_buffers()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, engine))


def map_large_buffers() -> None:
    """Let malloc map every large block, and unmap it when it is freed.

    By default glibc takes larger and larger blocks from the heap, once one was freed. Each TLS connection has a buffer
    of 256 KiB: in the heap, what was ever used of it stays resident, in holes between smaller blocks.
    """
    with suppress(OSError, AttributeError):  # of another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


async def _serve(settings: Settings, engine: Engine | None) -> None:
    async with AsyncExitStack() as stack:
        listening = _listen(settings)
        stack.callback(listening.close)
        _create_data_directory(settings.data)
        endpoint = settings.endpoint or _format_address(settings, listening)
        store = await open_store(settings.database)
        stack.push_async_callback(store.close)
        engine = engine or await _open_engine(settings, endpoint, store)
        if engine is not None:
            stack.push_async_callback(engine.close)
        context = await _build(settings, store, engine, endpoint, stack)
        app = make_app(context, lifespan=_make_lifespan(context, _format_address(settings, listening), settings))
        config = uvicorn.Config(
            add_middleware(app),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=settings.behind_proxy,
            forwarded_allow_ips=list(settings.trusted_proxies) or None,
            timeout_graceful_shutdown=int(settings.drain.total_seconds()),
            ssl_certfile=settings.tls_certificate,
            ssl_keyfile=settings.tls_key,
            lifespan="on",
            **WEBSOCKET_OPTIONS,
        )
        limits = ConnectionLimits(most=limit_by_descriptors(settings.max_connections), tell=_tell_connections_closed)
        await _Server(config, app, limits).serve(sockets=[listening])


class _Server(uvicorn.Server):
    """uvicorn's server with graceful draining: streams end and readiness fails before the listener closes."""

    def __init__(self, config: uvicorn.Config, app: Application, limits: ConnectionLimits) -> None:
        super().__init__(config)
        self._application = app
        self._limits = limits
        self._idle = IdleConnections()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then listen with our own protocol, which uvicorn's configuration cannot pass on."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(STARTUP_FAILED)
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(self._make_protocol, sock=one, backlog=BACKLOG) for one in sockets or ()
        ]
        self.started = True

    def _make_protocol(self) -> asyncio.Protocol:
        if self.config.ssl is None:
            return self._make_http_protocol()
        return TlsHandshake(self.config.ssl, self._make_http_protocol, limits=self._limits)

    def _make_http_protocol(self) -> LimitedProtocol:
        return LimitedProtocol(self.config, self.server_state, self.lifespan.state, limits=self._limits)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal's handler
        """Drain on the first signal, exit on the second.

        Logs nothing, because the signal may interrupt a log line. Does not store the signal: uvicorn would raise it
        again at the end, and the process would die of it instead of exiting with 0.
        """
        self.force_exit = self.should_exit
        self.should_exit = True
        self._application.state.is_draining = True

    async def on_tick(self, counter: int) -> bool:
        """Close idle connections once a second; uvicorn calls this ten times a second."""
        if counter % IDLE_CHECK_TICKS == 0:
            connections = (one for one in self.server_state.connections if isinstance(one, LimitedProtocol))
            self._idle.close_stale(connections)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for requests in progress."""
        log.info("server.draining")
        self._application.state.context.core.signals.notify_all()  # followed logs and events end
        await super().shutdown(sockets)
        if self.force_exit:
            # On a forced exit uvicorn skips this, and the loops would be cancelled with a traceback.
            await self.lifespan.shutdown()


def _tell_connections_closed(closed: int) -> None:
    log.warning(
        "connections.full",
        closed=closed,
        message="too many connections are open: raise --max-connections and `ulimit -n`, or limit clients in a proxy",
    )


async def _open_engine(settings: Settings, endpoint: str, store: SqlStore) -> Engine | None:
    """The engine that the settings name. Raises `OSError` if its folder, `CannotStart` if its cluster is unusable."""
    if settings.engine == "none":
        return None
    if settings.engine == "kubernetes":
        return await _open_kubernetes(settings, endpoint, store)
    return await LocalEngine.open(
        LocalSettings(folder=settings.data / "local", endpoint=endpoint, largest_log_bytes=settings.max_log_bytes)
    )


async def _open_kubernetes(settings: Settings, endpoint: str, store: SqlStore) -> Engine:
    async def read_newest_observation(place: Place) -> tuple[int, int]:
        async with store.begin(is_read_only=True) as unit:
            return await unit.runs.find_newest_observation(str(place))

    async with store.begin(is_read_only=True) as unit:
        installation = await unit.get_meta("installation")
    if installation is None:
        raise CannotStart("the database has no installation id: it was not made by `runyard db`")
    try:
        # By name: its libraries are an extra of their own.
        open_engine = import_module("runyard.engines.kubernetes.kubernetes_engine").open_engine
    except ModuleNotFoundError as error:
        raise CannotStart(f"--engine kubernetes: {error}: install `runyard[kubernetes]`") from error
    try:
        engine: Engine = await open_engine(
            kubeconfig=settings.kubeconfig,
            context=settings.context,
            namespace=settings.namespace,
            is_per_project=settings.namespace_per_project,
            installation=installation,
            endpoint=endpoint,
            launcher_image=settings.launcher_image,
            package_index=settings.package_index,
            read_newest_observation=read_newest_observation,
            project_limits=_list_project_limits(settings),
        )
    except EngineError as error:
        raise CannotStart(f"--engine kubernetes: {error}") from error
    return engine


def _list_project_limits(settings: Settings) -> dict[str, Any]:
    """The fields of `engines.kubernetes.kubernetes_settings.ProjectLimits`."""
    networks = settings.project_networks or ()
    return {
        "quota": settings.project_quota or {},
        "default_requests": settings.project_default_requests or {},
        "default_limits": settings.project_default_limits or {},
        "is_network_isolated": networks != ("all",),
        "reachable_networks": () if networks == ("all",) else networks,
    }


async def _build(
    settings: Settings, store: SqlStore, engine: Engine | None, endpoint: str, stack: AsyncExitStack
) -> ServerContext:
    s3: dict[str, Any] = {
        "s3_endpoint": settings.s3_endpoint,
        "s3_region": settings.s3_region,
        "s3_access_key": settings.s3_access_key,
        "s3_secret_key": settings.s3_secret_key,
    }
    logs = open_logs(settings.logs, **s3)
    stack.push_async_callback(logs.close)
    await logs.list_streams("nobody")  # fail now if the storage is unusable, not at the first log line
    blobs = open_blobs(settings.files, **s3)
    stack.push_async_callback(blobs.close)
    await blobs.check()
    files_store = None if settings.files_store is None else open_files_store(settings.files_store, **s3)
    if files_store is not None:
        stack.push_async_callback(files_store.close)
    is_new = settings.key is None and not settings.key_file.exists()
    core = Core(
        store=store,
        vault=open_vault(settings.key_file, text=settings.key),
        logs=logs,
        clock=SystemClock(),
        engine=engine,
        blobs=blobs,
        files_store=files_store,
        options=Options(
            endpoint=endpoint,
            client_configuration=_describe_files_store(settings),
            client_credentials=_list_client_credentials(settings),
            max_file_bytes=settings.max_file_bytes,
            max_entity_bytes=settings.max_entity_bytes,
            max_project_bytes=settings.max_project_bytes,
            refresh_token_life=settings.refresh_token_life,
            personal_token_life=settings.personal_token_life,
        ),
    )
    await _load_rule_files(core, settings)
    passwords = Passwords()
    stack.callback(passwords.close)
    issuer = Issuer(core, access_life=settings.access_token_life)
    await _prepare_keys(issuer, settings, is_new=is_new)
    is_open = await _choose_open_mode(settings, store)
    return ServerContext(
        core=core,
        authenticator=Authenticator(core, issuer=issuer, passwords=passwords, is_open=is_open),
        issuer=issuer,
        limits=Limits(
            body_bytes=settings.max_body_bytes,
            body_total_seconds=settings.max_body_time.total_seconds(),
            list_size=settings.max_list,
            page_bytes=settings.max_page_bytes,
            streams=settings.max_streams,
            requests_per_second=settings.max_requests,
        ),
        allowed_hosts=LOOPBACK_HOSTS | {settings.host},
    )


def _describe_files_store(settings: Settings) -> dict[str, str]:
    """How clients reach the files store, in the names of DigitalHub's SDK."""
    if settings.files_store is None:
        return {}
    return {
        "aws_endpoint_url": settings.s3_endpoint or f"https://s3.{settings.s3_region}.amazonaws.com",
        "aws_region": settings.s3_region,
        "dhcore_default_files_store": settings.files_store,
        "s3_bucket": settings.files_store.removeprefix("s3://").partition("/")[0],
        "s3_path_style": str(settings.s3_endpoint is not None).lower(),
        "s3_signature_version": "s3v4",
    }


def _list_client_credentials(settings: Settings) -> dict[str, str]:
    if not settings.s3_credentials_for_clients:
        return {}
    return {
        **_describe_files_store(settings),
        "aws_access_key_id": settings.s3_client_access_key or "",
        "aws_secret_access_key": settings.s3_client_secret_key or "",
    }


async def _prepare_keys(issuer: Issuer, settings: Settings, *, is_new: bool) -> None:
    """Prepare the keys that sign tokens. Raises `UnknownKey`, with what to do, if the database uses another key."""
    try:
        await issuer.prepare()
    except UnknownKey as error:
        if is_new:
            # This start created it and encrypted nothing with it; leaving it would hide that the right key is missing.
            settings.key_file.unlink()
            raise UnknownKey(
                f"the key file {settings.key_file} does not exist, and the database is encrypted: "
                "restore the file, or name another with --key-file"
            ) from None
        place = "RUNYARD_KEY" if settings.key is not None else f"{settings.key_file} (--key-file)"
        raise UnknownKey(f"the database is {error}: restore the key that belongs to it, in {place}") from None


async def _choose_open_mode(settings: Settings, store: SqlStore) -> bool:
    """Whether requests need no sign-in. A database with accounts is opened only by the flag that says so.

    Raises `CannotStart`.
    """
    has_accounts = await _has_accounts(store)
    if settings.auth == "accounts" and not has_accounts:
        log.warning(
            "accounts.none",
            message="nobody can sign in yet: stop the server, then run `runyard user create NAME --admin`",
        )
    if settings.open_to_everyone_on_this_machine:
        return True
    if has_accounts and settings.auth == "open":
        raise CannotStart(
            "--auth open: the database has accounts, so clients must sign in: remove `--auth open`, or give every "
            "program on this machine admin rights and the values of all secrets with --open-to-everyone-on-this-machine"
        )
    return settings.auth != "accounts" and not has_accounts


async def _has_accounts(store: Store) -> bool:
    async with store.begin(is_read_only=True) as unit:
        return bool(await unit.accounts.list_accounts())


async def _load_rule_files(core: Core, settings: Settings) -> None:
    warnings = []
    if settings.profiles is not None:
        warnings += await import_profiles(core, read_profile_texts(settings.profiles))
    if settings.policy is not None:
        warnings += await import_policy(
            core, settings.policy.read_text(errors="surrogateescape"), name=str(settings.policy)
        )
    for warning in warnings:
        log.warning("files.doubtful", message=str(warning))


def _create_data_directory(data: Path) -> None:
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(error.errno, f"cannot create the data directory {data}: {error.strerror}") from None


def read_profile_texts(place: Path) -> dict[str, str]:
    """Return the text of a profile file, or of every `.yaml`, `.yml` and `.json` file in a directory, by file name."""
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    wanted = [file for file in files if file.suffix in (".yaml", ".yml", ".json") or not place.is_dir()]
    return {str(file): file.read_text(errors="surrogateescape") for file in wanted if file.is_file()}


def _make_lifespan(context: ServerContext, address: str, settings: Settings) -> Any:
    @asynccontextmanager
    async def lifespan(app: Application) -> AsyncIterator[None]:
        app.state.is_draining = False
        task = asyncio.create_task(_supervise(context, settings), name="loops")
        # Exempt everything loaded so far from garbage collection: a full collection would block the event loop for a
        # tenth of a second.
        gc.freeze()
        _announce(context, address, settings)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return lifespan


async def _supervise(context: ServerContext, settings: Settings) -> None:
    await supervise(_make_loops(context, settings), count_failure=context.metrics.count_failure)


def _make_loops(context: ServerContext, settings: Settings) -> Mapping[str, Loop]:
    issuer = context.issuer

    async def issue_token(run: Run) -> str:
        signed = await issuer.issue_run_token(run, RUN_TOKEN_LIFE)
        return str(signed.text)

    core = context.core
    reconciler = Reconciler(core, core.engine, issue_token=issue_token, max_log_bytes=settings.max_log_bytes)
    retention = Retention(runs=settings.keep_runs, logs=settings.keep_logs, audit=settings.keep_audit)
    return {
        "reconcile": reconciler.run,
        "notifications": partial(_pass_on, core),
        "triggers": TriggerLoop(context.core, is_open=lambda: context.is_open).run,
        "retention": RetentionLoop(context.core, retention=retention).run,
        "deletions": DeletionLoop(context.core, context.core.engine).run,
        "volumes": VolumeLoop(context.core, context.core.engine).run,
        "gauges": partial(_measure, context),
        **_make_registry_loop(core),
        **_make_sweep(context, owns=reconciler.membership.owns),
        **({} if settings.open_to_everyone_on_this_machine else {"accounts": partial(_await_accounts, context)}),
    }


def _make_registry_loop(core: Core) -> Mapping[str, Loop]:
    """For an engine that keeps registry credentials."""
    engine = core.engine
    if engine is None or not isinstance(engine, ImagePulling):
        return {}
    return {"registries": RegistryLoop(core, engine, engine).run}


def _make_sweep(context: ServerContext, *, owns: Callable[[str], bool]) -> Mapping[str, Loop]:
    """Without an engine there is nothing to sweep."""
    engine = context.core.engine
    if engine is None:
        return {}
    return {"sweep": Sweeper(context.core, engine, owns=owns, count=context.metrics.set_orphans).run}


async def _pass_on(core: Core) -> None:
    """Wake waiters for what other replicas changed."""
    async for run_uids in core.store.listen():
        for run_uid in run_uids:
            core.signals.notify(run_uid)
        if not run_uids:
            core.signals.notify_all()  # something may have been missed


async def _await_accounts(context: ServerContext) -> None:
    """Leave open mode when the first account is created: with PostgreSQL, that happens while the server runs."""
    while context.is_open and not await _has_accounts(context.core.store):  # noqa: ASYNC110 - the database wakes nobody
        await asyncio.sleep(ACCOUNTS_SECONDS)
    if context.is_open:
        context.authenticator.require_accounts()
        log.warning("accounts.created", message="the database has accounts now: clients must sign in")
    await asyncio.Event().wait()


async def _measure(context: ServerContext) -> None:
    """Update the gauges of `/metrics` periodically."""
    while True:
        async with context.core.store.begin(is_read_only=True) as unit:
            context.metrics.set_runs(await unit.runs.count_states())
        await asyncio.sleep(GAUGE_SECONDS)


def _announce(context: ServerContext, address: str, settings: Settings) -> None:
    """Print the address to standard output for people and programs alike; the log format does not matter.

    One write: whoever waits for the address finds the warnings too.
    """
    lines = [f"runyard listens on {address}"]
    if context.is_open and settings.open_to_everyone_on_this_machine:
        lines.append(
            "!! --open-to-everyone-on-this-machine: accounts are ignored. Every program on this machine has admin "
            "rights and can read the values of all secrets. Cross-origin requests are refused."
        )
    elif context.is_open:
        lines += [
            "!! No accounts: every program on this machine has admin rights. Cross-origin requests are refused.",
            "!! Beyond a laptop, run `runyard user create NAME --admin`; then clients must sign in.",
        ]
    if context.core.engine is None:
        lines.append("No engine: runs are accepted, resolved and stored, and stay READY. --engine local executes them.")
    elif settings.engine == "kubernetes":
        lines.append(f"Kubernetes engine: runs are executed at the place {context.core.engine.place}.")
    elif settings.engine == "local":
        lines.append("Local engine: runs are processes of this machine, and go on when the server ends.")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets that were created with IPPROTO_TCP.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host.strip("[]"), settings.port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        cure = _PORT_CURES.get(error.errno or 0, "")
        raise AddressUnusable(f"cannot listen on {settings.host}:{settings.port}: {reason}{cure}") from None
    return listening


class CannotStart(Exception):
    """The server cannot start; the message says what to do."""


class AddressUnusable(CannotStart):
    """The listening address is in use, or does not belong to this machine."""


def _format_address(settings: Settings, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host and not settings.host.startswith("[") else settings.host
    return f"{'https' if settings.has_tls else 'http'}://{host}:{port}"
