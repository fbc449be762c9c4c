# mypy: ignore-errors
# ruff: noqa: F821, INP001
run = func.run(
    action="job",
    run_as_group=1000,
)
