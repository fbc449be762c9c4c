"""The client with its I/O. `sync/` is generated from this package by `make sdk`, so it keeps to what can be translated.

Layers: `client` → `project` → `function` | `stored_files` → `run` → `log_follow` → `transport`.
"""
