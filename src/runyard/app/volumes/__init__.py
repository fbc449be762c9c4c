"""Volumes that a project keeps, for its runs to mount as `shared_volume`."""
