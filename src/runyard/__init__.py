"""Runyard runs AI tasks, batch jobs and model serving, on Kubernetes with exactly the resources they need.

`import runyard as ry` is the SDK. Its names are loaded when they are used first; `__init__.pyi` has their types.
"""

from importlib import import_module

__version__ = "0.1.0"

_ERRORS = (
    *("AlreadyExists", "ApiError", "ArgumentError", "CertificateError", "ConfigurationError", "Conflict", "Forbidden"),
    *("NotFound", "NotSignedIn", "NotSupported", "Problem", "Refused", "RunFailed", "RunyardError", "ServerFailed"),
    *("ServerUnreachable", "SessionFailed", "TooManyRequests", "TransferFailed", "UnexpectedResponse", "WaitTimeout"),
)
_DICTIONARIES = (
    *("Env", "FunctionArguments", "NodeSelector", "Resources", "RunArguments", "ServicePort", "Sides", "Source"),
    *("Toleration", "Volume", "VolumeSpec"),
)
_FUNCTIONS = (
    *("delete_project", "get_client", "get_or_create_project", "get_project", "get_run", "list_projects"),
    "set_client",
)
_RECORDS = (
    *(
        "AuditEntry",
        "ConfigMap",
        "CreatedToken",
        "KeptVolume",
        "Rehearsal",
        "Revision",
        "Share",
        "StoredPolicy",
        "StoredProfile",
    ),
    "Token",
)
_NAMES = {
    **dict.fromkeys(_DICTIONARIES, "arguments"),
    **dict.fromkeys(_ERRORS, "errors"),
    **dict.fromkeys(_FUNCTIONS, "default_client"),
    **dict.fromkeys(_RECORDS, "records"),
    "AsyncClient": "aio.client",
    "AsyncFunction": "aio.function",
    "AsyncProject": "aio.project",
    "AsyncRun": "aio.run",
    "AsyncRunDraft": "aio.run_draft",
    "AsyncSession": "sessions.aio",
    "AsyncStoredEntity": "aio.stored_files",
    "Check": "checks",
    "CapturedFunction": "captured_functions",
    "Client": "sync.client",
    "ExecResult": "sessions.channels",
    "Explanation": "explanations",
    "Function": "sync.function",
    "LogLine": "log_reader",
    "PortForward": "sessions.channels",
    "Project": "sync.project",
    "Rendering": "explanations",
    "Run": "sync.run",
    "RunDraft": "sync.run_draft",
    "Section": "documents",
    "Session": "sessions.blocking",
    "StoredEntity": "sync.stored_files",
    "TransferProgress": "transfer_progress",
    "function": "captured_functions",
}
"""Where each public name is, below `runyard.sdk`."""

__all__ = [*sorted(_NAMES), "__version__"]  # noqa: PLE0604 - computed from the table


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module `runyard` has no `{name}`")
    value: object = getattr(import_module(f"runyard.sdk.{_NAMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
