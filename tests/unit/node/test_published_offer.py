"""An agent without an offer: the file is read again until it is right, and the node keeps what it published."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runyard.kube import Client, NotFound, Resource
from runyard.kube.resources import NODES
from runyard.node import offer_watch
from runyard.node.offer import CPU, GPU, MEMORY, PODS
from runyard.node.offer_file import load_offer
from runyard.node.offer_watch import watch_offer_file
from runyard.node.published_offer import find_published_offer
from runyard.node.runtime_classes import render_runtime_class

OFFER = """
capacity: {cpu: "63", memory: 263567056Ki, nvidia.com/gpu: 8, pods: 8}
shapes:
- {name: one, handler: nvidia, limits: {cpu: 8000m, memory: 32861620Ki, gpu: 1}, remote_class: theirs}
"""


class Cluster:
    """A cluster with the node as it was published, or without."""

    def __init__(self, node: dict[str, Any] | None) -> None:
        self.node = node

    async def get(self, resource: Resource, _: str) -> dict[str, Any]:
        assert resource is NODES
        if self.node is None:
            raise NotFound("none")
        return self.node

    async def list(self, _: Resource, *, label_selector: str) -> SimpleNamespace:
        assert label_selector == "k8s.gpu=k8s.gpu"
        shapes = load_offer(OFFER.encode()).shapes.values()
        return SimpleNamespace(items=[render_runtime_class(shape, "k8s.gpu") for shape in shapes])


async def find(node: dict[str, Any] | None) -> Any:
    return await find_published_offer(cast("Client", Cluster(node)), node="k8s.gpu")


async def test_offer_is_read_back_when_the_node_published_it() -> None:
    capacity = {CPU: "63", MEMORY: "263567056Ki", GPU: "8", PODS: "8"}
    offer = await find({"status": {"capacity": capacity}})
    assert {name: amount.text for name, amount in offer.capacity.items()} == capacity
    (shape,) = offer.shapes.values()
    assert (shape.name, shape.limits) == ("one", load_offer(OFFER.encode()).shapes["one"].limits)
    assert shape.remote_class != "theirs"  # it was not published: nothing may begin with what is read back


@pytest.mark.parametrize("node", [None, {}, {"status": {}}, {"status": {"capacity": {"cpu": "many"}}}])
async def test_there_is_no_offer_when_the_node_never_published_one(node: dict[str, Any] | None) -> None:
    assert await find(node) is None


async def test_file_is_read_again_when_it_has_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offer_watch, "POLL_SECONDS", 0.01)
    path = tmp_path / "offer.yaml"
    path.write_text("capacity: a mistake")
    offers = watch_offer_file(path)
    first = asyncio.ensure_future(anext(offers))
    await asyncio.sleep(0.1)
    assert not first.done()
    path.write_text(OFFER)
    async with asyncio.timeout(10):
        assert set((await first).shapes) == {"one"}
    second = asyncio.ensure_future(anext(offers))
    path.write_text("also: wrong")
    await asyncio.sleep(0.1)
    assert not second.done()
    path.write_text(OFFER.replace("name: one", "name: two"))
    async with asyncio.timeout(10):
        assert set((await second).shapes) == {"two"}
