# mypy: ignore-errors
# ruff: noqa: F821, INP001
run = func.run(
    action="job",
    fs_group="8877",
)
