# mypy: ignore-errors
# ruff: noqa: F821, INP001
run = func.run(
    action="job",
    resources={"cpu": "10"},
)
