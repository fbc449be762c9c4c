"""Calls that a type checker must accept, and calls that it must refuse. `make gates` checks this module with mypy.

A line that must not type-check carries `type: ignore` with the expected error: mypy reports an ignore that is not
needed, so the gate fails if such a line becomes legal. Nothing here is executed.
"""

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

import runyard as ry


def show(progress: ry.TransferProgress) -> None:
    assert_type(progress.done_bytes, int)


@ry.function(requirements=["numpy"], resources={"mem": "1Gi"})
def train(name: str, epochs: int = 3) -> float:
    return float(epochs)


def accepted(project: ry.Project, func: ry.Function, run: ry.Run) -> None:
    assert_type(ry.get_or_create_project("demo"), ry.Project)
    assert_type(project.new_function("f", code="", handler="h", requirements=["x"]), ry.Function)
    assert_type(func.run(action="serve", resources={"cpu": "8", "mem": {"requests": "1Gi"}}), ry.Run)
    assert_type(run.wait(timeout=1.5, progress=True), ry.Run)
    assert_type(run.logs(), str)
    assert_type(run.logs(follow=True), Iterator[str])
    assert_type(func.explain(profile="1xa100"), ry.Explanation)
    assert_type(run.wait(until="running").results, ry.Section)
    assert_type(run.events(), list[ry.Section])
    assert_type(run.metrics(), ry.Section)
    assert_type(run.why(), str)
    assert_type(project.log_model("m", "net.bin", on_progress=show), ry.StoredEntity)
    assert_type(project.new_artifact("a", path="s3://b/c"), ry.StoredEntity)
    assert_type(project.list_dataitems(limit=3), list[ry.StoredEntity])
    assert_type(train("x"), float)
    assert_type(project.save_function(train), ry.Function)
    volume = ry.Volume(volume_type="empty_dir", name="v", mount_path="/v", spec={"size_limit": "1Gi"})
    func.run(
        volumes=[volume],
        envs=[{"name": "A", "value": "1"}],
        node_selector=[ry.NodeSelector(key="gpu", value="a100")],
        tolerations=[{"key": "spot", "operator": "Exists"}],
        fs_group="8877",
        service_ports=[8080, {"port": 80, "target_port": 8080}],
    )
    func.run(envs={"A": "1"}, node_selector={"gpu": "a100"}, affinity={"node_affinity": {}})


async def refused_async(project: ry.AsyncProject, run: ry.AsyncRun) -> None:
    _ = run.wait().state  # type: ignore[attr-defined]
    for _ in run.logs(follow=True):  # type: ignore[attr-defined]
        pass
    await project.log_model("m", 3)  # type: ignore[arg-type]


async def accepted_async(client: ry.AsyncClient, run: ry.AsyncRun) -> None:
    project = await client.get_or_create_project("demo")
    assert_type(project, ry.AsyncProject)
    assert_type(await (await project.get_function("f")).run(), ry.AsyncRun)
    assert_type(await run.logs(), str)
    assert_type(run.logs(follow=True), AsyncIterator[str])


def refused(project: ry.Project, func: ry.Function, run: ry.Run) -> None:
    func.run(resorces={"cpu": "8"})  # type: ignore[call-arg]
    func.run(action="jobs")  # type: ignore[arg-type]
    func.run("job", "id")  # type: ignore[call-arg]
    func.run(resources={"memory": "1Gi"})  # type: ignore[typeddict-unknown-key]
    func.run(resources={"cpu": {"request": "1"}})  # type: ignore[typeddict-item]
    func.run(resources={"cpu": ["1"]})  # type: ignore[typeddict-item]
    func.run(volumes=[{"volume_type": "pvc"}])  # type: ignore[typeddict-item]
    func.run(envs=[{"name": "A"}])  # type: ignore[typeddict-item]
    func.run(image_pull_policy="always")  # type: ignore[arg-type]
    func.run(secrets=[1])  # type: ignore[list-item]
    func.explain(wait=True)  # type: ignore[call-arg]
    run.wait(until="done")  # type: ignore[arg-type]
    run.wait(5.0)  # type: ignore[call-arg, arg-type]
    run.logs(follow=True).upper()  # type: ignore[attr-defined]
    project.new_function("f", code_source="x.py")  # type: ignore[call-arg]
    project.log_model("m", "net.bin", on_progress=len)  # type: ignore[arg-type]
    project.log_artifact("a", "x", progress=True)  # type: ignore[call-arg]
    project.new_model("m")  # type: ignore[call-arg]
    project.list_artifacts(5)  # type: ignore[call-arg]
    train(1)  # type: ignore[arg-type]
    train("x", epoch=1)  # type: ignore[call-arg]
    ry.function(requirement=["numpy"])  # type: ignore[call-arg]
    ry.function(train)  # type: ignore[call-arg, arg-type]
    project.save_function(len)  # type: ignore[arg-type]
    run.events()[0] + 1  # type: ignore[operator]
    ry.get_or_make_project("demo")  # type: ignore[attr-defined]
