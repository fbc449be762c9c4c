from tests.unit.sdk.sync_source import SDK, generate, translate


def test_sync_is_what_would_be_generated_when_aio_was_changed() -> None:
    stored = {path.name: path.read_text() for path in (SDK / "sync").glob("*.py")}
    assert stored == generate(), "run `make sdk`"


def test_nothing_asynchronous_is_left_when_a_module_is_translated() -> None:
    source = "async def f(run: AsyncRun) -> AsyncIterator[int]:\n    async with a as b:\n        await b.aclose()\n"
    expected = "def f(run: Run) -> Iterator[int]:\n    with a as b:\n        b.close()\n"
    assert translate(source, name="f.py").partition("\n")[2] == expected
    for path in (SDK / "sync").glob("*.py"):
        assert "await" not in path.read_text()
        assert "asyncio" not in path.read_text()
