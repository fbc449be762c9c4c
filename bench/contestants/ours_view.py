"""`runyard.kube.Reflector` with a view of five fields: name, namespace, uid, resourceVersion and phase."""

from pathlib import Path

import msgspec

from bench.contestants.ours import Ours
from runyard.kube.views import View


class Status(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""


class PodView(View, frozen=True):
    status: Status = Status()


def start(kubeconfig: Path, namespace: str) -> Ours:
    return Ours(kubeconfig, namespace, options={"view": PodView})
