# mypy: ignore-errors
# ruff: noqa: F821, INP001
run = func.run(
    action="job",
    fs_group="8877",
    args=[...],
    resources={"mem": "32Gi", "cpu": "6"},
    volumes=[
        {
            "volume_type": "persistent_volume_claim",
            "name": "volume-deforestation",
            "mount_path": "/app/files",
            "spec": {"size": "350Gi"},
        }
    ],
)
