import asyncio
from datetime import UTC, datetime, timedelta

from runyard.node.providers.change_feed import ChangeFeed
from runyard.node.providers.kubernetes.link_monitor import LinkMonitor, LinkProblem

START = datetime(2026, 1, 1, tzinfo=UTC)


def _at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_link_is_down_when_nothing_was_heard() -> None:
    monitor = LinkMonitor(now=START, down_after_seconds=15)
    assert (monitor.link.is_up, monitor.link.has_listed) == (False, False)
    assert not monitor.observe(LinkProblem("refused"), now=_at(1))
    assert monitor.link.message == "refused"


def test_link_is_up_at_once_when_something_works() -> None:
    monitor = LinkMonitor(now=START, down_after_seconds=15)
    assert monitor.observe(None, now=_at(1))
    assert (monitor.link.is_up, monitor.link.since, monitor.link.message) == (True, _at(1), "")


def test_link_goes_down_only_when_it_fails_for_long() -> None:
    monitor = LinkMonitor(now=START, down_after_seconds=15)
    monitor.observe(None, now=_at(0))
    assert not monitor.observe(LinkProblem("cut"), now=_at(10))
    assert not monitor.observe(None, now=_at(20))
    assert not monitor.observe(LinkProblem("cut"), now=_at(30))
    assert not monitor.observe(LinkProblem("cut"), now=_at(44))
    assert monitor.observe(LinkProblem("cut"), now=_at(45))
    assert (monitor.link.is_up, monitor.link.since, monitor.link.message) == (False, _at(45), "cut")


def test_list_stays_known_when_the_link_goes_down() -> None:
    monitor = LinkMonitor(now=START, down_after_seconds=0)
    monitor.note_listed()
    monitor.observe(None, now=_at(0))
    monitor.observe(LinkProblem("cut"), now=_at(1))
    assert (monitor.link.is_up, monitor.link.has_listed) == (False, True)


def test_link_goes_down_at_once_when_the_provider_says_so_itself() -> None:
    monitor = LinkMonitor(now=START, down_after_seconds=15)
    monitor.observe(None, now=_at(0))
    gone = LinkProblem("namespace a does not exist", "ProviderNamespaceMissing", is_certain=True)
    assert monitor.observe(gone, now=_at(1))
    assert (monitor.link.is_up, monitor.link.reason) == (False, "ProviderNamespaceMissing")
    assert not monitor.observe(gone, now=_at(2))
    assert monitor.observe(LinkProblem("refused"), now=_at(3))
    assert (monitor.link.since, monitor.link.reason, monitor.link.message) == (_at(1), "LinkDown", "refused")


async def test_changes_are_coalesced_when_nobody_reads_them() -> None:
    feed = ChangeFeed()
    changes = feed.follow(["a"])
    assert await anext(changes) == {"a"}
    assert await anext(changes) == frozenset()
    feed.publish(["b"])
    feed.publish(["b", "c"])
    assert await anext(changes) == {"b", "c"}
    feed.publish(())
    assert await anext(changes) == frozenset()
    with_nothing = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    assert not with_nothing.done()
    feed.publish(["d"])
    assert await with_nothing == {"d"}
