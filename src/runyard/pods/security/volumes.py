"""Checks on volumes: no hostPath; in *restricted*, only harmless volume types."""

from runyard.pods.security.facts import Pod, Volume
from runyard.pods.security.known_fields import FORBIDDEN_VOLUMES
from runyard.pods.security.violations import Finding, choose, quote_each


def check_host_path_volumes(pod: Pod) -> Finding | None:
    """No hostPath volumes."""
    names = [volume.name for volume in pod.volumes if "hostPath" in volume.sources]
    if not names:
        return None
    return Finding("hostPath volumes", f"{choose('volume', 'volumes', count=len(names))} {quote_each(names)}")


def check_volume_kinds(pod: Pod) -> Finding | None:
    """Only the volume types that *restricted* allows. Every source of a volume is checked."""
    bad = {volume: kind for volume in pod.volumes if (kind := _find_forbidden_kind(volume))}
    if not bad:
        return None
    names = [volume.name for volume in pod.volumes if volume in bad]
    kinds = sorted(set(bad.values()))
    noun = choose("restricted volume type", "restricted volume types", count=len(kinds))
    use, volumes = choose("uses", "use", count=len(names)), choose("volume", "volumes", count=len(names))
    return Finding("restricted volume types", f"{volumes} {quote_each(names)} {use} {noun} {quote_each(kinds)}")


def _find_forbidden_kind(volume: Volume) -> str | None:
    return next((kind for kind in FORBIDDEN_VOLUMES if kind in volume.sources), None)
