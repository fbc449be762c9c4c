"""Volumes that a project keeps. Runs mount them as `shared_volume`. May import `runs` and below."""

from runyard.app.volumes.kept_volumes import create_volume, delete_volume, get_volume

__all__ = [
    "create_volume",
    "delete_volume",
    "get_volume",
]
