# mypy: ignore-errors
# ruff: noqa: F821, INP001
run = func.run(
    action="job",
    volumes=[
        {
            "volume_type": "persistent_volume_claim",
            "name": "my-pvc",
            "mount_path": "/data",
            "spec": {"size": "10Gi"},
        }
    ],
)
