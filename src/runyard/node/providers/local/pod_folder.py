"""The folder of a pod on this machine, and what is written down about it. Nothing of a Secret is in `pod.json`.

identity                        tells this folder from others
pods/<uid>/pod.json             the record; a folder without it was never started
pods/<uid>/deleted              a stop was asked for: the pod goes when its processes have ended
pods/<uid>/containers/<name>/   a supervision of `runyard.procs`: state, logs
pods/<uid>/volumes/<name>/      ConfigMaps, Secrets, emptyDirs
pods/<uid>/work/                where commands without a workingDir begin
"""

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from runyard.node.providers.provider import ProviderRefused

LARGEST_RECORD_BYTES = 1 << 20
LONGEST_IDENTITY = 64
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")


def ensure_identity(root: Path) -> str:
    """The identity of the folder, made once. Blocks."""
    path = root / "identity"
    try:
        with path.open("x") as made:
            made.write(str(uuid.uuid4()))
    except FileExistsError:
        pass
    with path.open() as file:
        return file.read(LONGEST_IDENTITY).strip()


@dataclass(frozen=True, slots=True)
class PodRecord:
    """What must be known of a pod after the agent's restart."""

    uid: str
    namespace: str
    name: str
    started_at: str
    restart_policy: str
    images: Mapping[str, str]
    """By container, in order: its image, which is only shown."""
    requests: Mapping[str, str]
    init_images: Mapping[str, str] = field(default_factory=dict)
    """The same of init containers."""

    @property
    def containers(self) -> tuple[str, ...]:
        """The names of all containers, init containers first."""
        return (*self.init_images, *self.images)


@dataclass(frozen=True, slots=True)
class PodFolder:
    """Paths of one pod. Every method blocks."""

    path: Path

    def container(self, name: str) -> Path:
        """The supervision of a container."""
        return self.path / "containers" / name

    def volume(self, name: str) -> Path:
        """The content of a volume."""
        return self.path / "volumes" / name

    @property
    def work(self) -> Path:
        """The working folder."""
        return self.path / "work"

    @property
    def is_deleted(self) -> bool:
        """Whether a stop was asked for."""
        return (self.path / "deleted").exists()

    def mark_deleted(self) -> None:
        """Remember that a stop was asked for."""
        (self.path / "deleted").touch()

    def write_record(self, record: PodRecord) -> None:
        """From now on there is such a pod."""
        temporary = self.path / "pod.json.new"
        temporary.write_text(json.dumps(asdict(record)))
        temporary.replace(self.path / "pod.json")

    def read_record(self) -> PodRecord | None:
        """The record; None if there is none, or it cannot be read."""
        try:
            with (self.path / "pod.json").open("rb") as file:
                return PodRecord(**json.loads(file.read(LARGEST_RECORD_BYTES)))
        except (OSError, ValueError, TypeError):
            return None


def pod_folder(root: Path, uid: str) -> PodFolder:
    """The folder of a pod; `ProviderRefused` for a uid that cannot name one."""
    if _UID.fullmatch(uid) is None:
        raise ProviderRefused("InvalidUid", f"the uid {uid!r:.100} cannot name a folder")
    return PodFolder(root / "pods" / uid)


def iter_pod_folders(root: Path) -> Iterator[PodFolder]:
    """All of them, also those without a record. Blocks."""
    for path in sorted((root / "pods").iterdir()):
        yield PodFolder(path)


def utc_now() -> str:
    """The time, as Kubernetes writes it."""
    return format_time(datetime.now(UTC))


def format_time(at: datetime) -> str:
    """A time, as Kubernetes writes it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
