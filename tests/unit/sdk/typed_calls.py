"""Calls that a type checker must accept, and calls that it must refuse. `make gates` checks this module with mypy.

A line that must not type-check carries `type: ignore` with the expected error: mypy reports an ignore that is not
needed, so the gate fails if such a line becomes legal. Nothing here is executed.
"""

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

import runyard as ry


def accepted(project: ry.Project, func: ry.Function, run: ry.Run) -> None:
    assert_type(ry.get_or_create_project("demo"), ry.Project)
    assert_type(project.new_function("f", code="", handler="h", requirements=["x"]), ry.Function)
    assert_type(func.run(action="serve", resources={"cpu": "8", "mem": {"requests": "1Gi"}}), ry.Run)
    assert_type(run.wait(timeout=1.5, progress=True), ry.Run)
    assert_type(run.logs(), str)
    assert_type(run.logs(follow=True), Iterator[str])
    assert_type(func.explain(profile="1xa100"), ry.Explanation)
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
    ry.get_or_make_project("demo")  # type: ignore[attr-defined]
