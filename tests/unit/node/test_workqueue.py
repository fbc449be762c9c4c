import asyncio

from runyard.node.workqueue import WorkQueue


async def _take(queue: WorkQueue[str], seconds: float = 1.0) -> str:
    async with asyncio.timeout(seconds):
        return await queue.take()


async def test_key_comes_once_when_it_is_added_twice() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert [await _take(queue), await _take(queue)] == ["a", "b"]
    assert len(queue) == 0


async def test_key_comes_again_after_the_work_when_it_is_added_meanwhile() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    await _take(queue)
    queue.add("a")
    queue.add("b")
    assert await _take(queue) == "b"
    queue.done("a")
    assert await _take(queue) == "a"


async def test_delayed_key_comes_once_at_the_earlier_time_when_it_is_added_twice() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 60)
    queue.add_after("a", 0.01)
    queue.add_after("b", 0.02)
    assert await _take(queue) == "a"
    queue.done("a")
    assert await _take(queue) == "b"


async def test_delay_is_forgotten_when_the_key_is_due_now() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 0.01)
    queue.add("a")
    assert await _take(queue) == "a"
    queue.done("a")
    await asyncio.sleep(0.02)
    queue.add("b")
    assert await _take(queue) == "b"


async def test_waiting_worker_wakes_when_a_key_arrives() -> None:
    queue = WorkQueue[str]()
    workers = [asyncio.create_task(_take(queue)) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add("a")
    queue.add_after("b", 0.01)
    assert sorted(await asyncio.gather(*workers)) == ["a", "b"]


async def test_backoff_grows_until_it_is_forgotten_when_a_key_fails() -> None:
    queue = WorkQueue[str](backoff_seconds=(0.02, 10.0))
    clock = asyncio.get_running_loop().time
    for _ in range(2):
        queue.retry("a")
        await _take(queue)
        queue.done("a")
    began = clock()
    queue.retry("a")
    await _take(queue)
    queue.done("a")
    assert clock() - began >= 0.04
    queue.forget("a")
    queue.retry("a")
    assert await _take(queue, 0.5) == "a"
