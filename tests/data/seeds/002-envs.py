# mypy: ignore-errors
# ruff: noqa: F821, INP001
run = func.run(
    action="job",
    envs=[
        {"name": "HF_HOME", "value": "/local-data/huggingface"},
        {"name": "TRANSFORMERS_CACHE", "value": "/local-data/huggingface"},
    ],
)
