"""Projects, functions, tasks, artifacts, secrets: entities stored by type and id. Start in `crud.py`."""
