# mypy: ignore-errors
# ruff: noqa: F821, INP001
train_run = func.run(
    action="job",
    inputs={"input1": value},
    profile="1xa100",  # selected hardware profile
    resources={"mem": "6Gi"},
    volumes=[
        {
            "volume_type": "persistent_volume_claim",
            "name": "train-volume",
            "mount_path": "/local-data",
            "spec": {"size": "10Gi"},
        }
    ],
)
