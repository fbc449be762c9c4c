"""Reads docs/operators/limits.md: the rows of its tables, and the value of the constant that each row names."""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "operators" / "limits.md"
SOURCE = ROOT / "src" / "runyard"
HEADER = ("bound", "value", "setting", "constant")
PACKAGES = (
    *("api", "app", "auth", "domain", "engines", "files", "kube", "launcher", "logs", "manifests", "pods", "procs"),
    *("spec", "store", "telemetry", "vault"),
)
"""The server, with its engines: their bounds are on the page."""
UNLISTED = {
    "api.routes.events.MOST_SEQUENCE": "the largest number, not a limit of anything stored",
    "api.routes.profiles.MOST_NUMBER": "the largest number, not a limit of anything stored",
    "api.routes.sessions.MOST_PORT": "the largest number of a port",
    "api.routes.uploads.LARGEST_SIZE": "the largest number, not a limit of anything stored",
    "api.websockets.MOST_REASON_BYTES": "WebSocket's own rule for close frames",
    "app.files.downloads.MOST_NAMED": "how many files a message names",
    "app.identity.accounts.MOST_NAMED": "how many projects a message names",
    "app.identity.refused_access.MOST_KNOWN": "only aggregates audit rows",
    "app.identity.refused_access.MOST_PROJECT_CHARACTERS": "how much of a text an audit row keeps",
    "app.identity.refused_access.MOST_WHY_CHARACTERS": "how much of a text an audit row keeps",
    "app.loops.log_collection.LONGEST_PAUSE_SECONDS": "backoff of the server's own loops",
    "app.loops.log_writer.LONGEST_WRITE_PAUSE_SECONDS": "backoff of the server's own loops",
    "app.loops.observation_lane.LONGEST_RETRY_SECONDS": "backoff of the server's own loops",
    "app.loops.reconcile.LONGEST_YIELD_SECONDS": "how long the server's own work waits for more urgent work",
    "app.projects.metrics.MOST_VALUE": "the largest number in JSON",
    "app.projects.search.MOST_READ": "the step of a scan",
    "engines.kubernetes.observations.container_exits.MOST_SIGNAL": "the largest number of a signal",
    "engines.local.capacity.amounts.LARGEST_AMOUNT": "the largest number that is counted",
    "engines.local.capacity.claim_journal.MOST_OUTDATED_SHARE": "when a file is written anew",
    "engines.local.folders.place_files.LONGEST_LOCK_PAUSE_SECONDS": "backoff of the server's own work",
    "engines.local.local_settings.LARGEST_LOG_BYTES": "the server sets what --max-log-bytes says",
    "engines.local.log_files.LONGEST_PAUSE_SECONDS": "how often the server's own loop looks",
    "engines.local.pod_plans.LONGEST_READINESS_PERIOD_SECONDS": "how often the server's own loop looks",
    "launcher.arguments.MOST_NAMED": "how many names a message lists",
    "launcher.remote_source.git_checkouts.LARGEST_GIT_MESSAGE_BYTES": "how much of a text a message is made of",
    "launcher.handlers.MOST_CANDIDATES": "how many names are compared for a message",
    "launcher.memory_peak.LARGEST_PROC_BYTES": "no file of the kernel is larger",
    "launcher.run_api.LARGEST_ERROR_CHARACTERS": "how much of a text a message quotes",
    "logs.database_rows.MOST_FREE_PAGES": "the step in which a file gets smaller",
    "logs.pieces.LARGEST_PIECE": "how a log is divided",
    "manifests.patches.MOST_GENERATION": "the largest number that the annotation holds",
    "app.times.MOST_CHARACTERS": "no time is longer",
    "auth.credential_cache.LONGEST_SECONDS": "how long a check is remembered",
    "auth.failure_limiter.MOST_BUCKETS": "follows MOST_KNOWN",
    "manifests.names.MOST_PLAIN_ID_CHARACTERS": "Kubernetes' own rule for names",
    "manifests.names.MOST_RUN_NAME_CHARACTERS": "Kubernetes' own rule for names",
    "manifests.names.MOST_SERVICE_NAME_CHARACTERS": "Kubernetes' own rule for names",
    "procs.leftovers.LARGEST_ERRORS_BYTES": "how much of a text a message quotes",
    "procs.listener.LONGEST_PATH_BYTES": "Linux' own rule for paths",
    "procs.supervisor.failures.LONGEST_MESSAGE_CHARACTERS": "below that of an observation",
    "procs.supervisor.instances.LARGEST_REPORT_BYTES": "how much of a text a message quotes",
    "procs.supervisor.child.MOST_DESCRIPTORS": "Linux' own default for the most of a process",
    "procs.supervisor.output.MOST_CHUNKS": "the step of a loop",
    "procs.supervisor.poll_loop.LONGEST_WAIT_SECONDS": "the supervisor's own loop",
    "spec.duration.LONGEST": "the largest value of a field",
    "spec.images.MOST_PATH_CHARACTERS": "the container runtimes' own rule for references",
    "spec.images.MOST_PORT": "the largest number of a port",
    "spec.lints.MOST_CORES": "a lint",
    "spec.names.MOST_LABEL_CHARACTERS": "Kubernetes' own rule for names",
    "spec.names.MOST_PORT_NAME_CHARACTERS": "Kubernetes' own rule for names",
    "spec.names.MOST_SUBDOMAIN_CHARACTERS": "Kubernetes' own rule for names",
    "spec.problems.MOST_BITS": "how a number is shown",
    "spec.resources.LARGEST_AMOUNT": "the largest value of a field",
    "spec.resources.LARGEST_COUNT": "the largest value of a field",
    "spec.run_fields.LARGEST_ID": "the largest value of a field",
    "spec.yaml.tree_builder.MOST_PROBLEMS": "below that of an error",
    "store.columns.LARGEST": "the largest number of the databases",
    "telemetry.loop_supervision.LONGEST_PAUSE_SECONDS": "backoff of the server's own loops",
    "telemetry.redaction.MOST_DEPTH": "how deep a line of the server's own log is",
}
"""Constants that are named like bounds and have no row, each with its reason."""
_BOUND = re.compile(r"(MOST|LARGEST|LONGEST|MAX)(_[A-Z_]+)?")
_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "s": 1, "ms": 0.001}


@dataclass(frozen=True, slots=True)
class Row:
    """One bound as the page states it."""

    bound: str
    value: str
    setting: str
    constant: str

    @property
    def amount(self) -> float:
        """The value as a number: bytes, seconds or a count."""
        match = re.fullmatch(r"([0-9.]+) ?([A-Za-z]*)", self.value)
        if match is None or match[2] not in _UNITS:
            raise ValueError(f"{self.value!r} is not a number with one of the units {sorted(_UNITS)}")
        return float(match[1]) * _UNITS[match[2]]


def read_rows() -> list[Row]:
    """Every row of every table with the four columns."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.startswith("|")]
    rows = [each for each in cells if each != HEADER and not set("".join(each)) <= set("-: ")]
    return [Row(bound, value, setting.strip("`"), constant.strip("`")) for bound, value, setting, constant in rows]


def read_constant(dotted: str) -> float:
    """The value of `package.module.NAME`, or the default of `package.module.Class.field`, as a number."""
    parts = dotted.split(".")
    owner = next(index for index, part in enumerate(parts) if part[:1].isupper())
    value: Any = importlib.import_module(".".join(("runyard", *parts[:owner])))
    for part in parts[owner:]:
        value = _get_default(value, part)
    return to_number(value)


def to_number(value: Any) -> float:
    """A count or a number of bytes as it is, a duration in seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def iter_bounds() -> Iterator[str]:
    """Every public constant of the listed packages that is named like a bound, as `package.module.NAME`."""
    for package in PACKAGES:
        for file in sorted((SOURCE / package).rglob("*.py")):
            module = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                targets = node.targets if isinstance(node, ast.Assign) else ()
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                yield from (f"{module}.{name}" for name in names if _BOUND.fullmatch(name))


def _get_default(owner: Any, name: str) -> Any:
    if isinstance(owner, type) and is_dataclass(owner):
        default = next(field.default for field in fields(owner) if field.name == name)
        if default is MISSING:
            raise ValueError(f"{owner.__name__}.{name} has no default")
        return default
    return getattr(owner, name)
