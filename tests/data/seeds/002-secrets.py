# mypy: ignore-errors
# ruff: noqa: F821, INP001
run = func.run(
    action="job",
    secrets=["CDSETOOL_ESA_USER", "CDSETOOL_ESA_PASSWORD"],
)
