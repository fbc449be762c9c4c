"""The suite finds out every engine that breaks an obligation; so it is worth passing."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from runyard.app import engine as port
from runyard.app.engine import EngineError
from tests.contract import engine as suite
from tests.contract.engine import broken, broken_reports, broken_sessions
from tests.contract.engine.conftest import open_memory_lab
from tests.contract.engine.lab import Lab
from tests.contract.engine.obligations import OBLIGATIONS
from tests.engines.memory import MemoryEngine

Test = Callable[[Lab], Awaitable[None]]
PROOFS = [
    pytest.param(engine, name, id=f"{engine.__name__}-{name.removeprefix('test_')}")
    for obligation in OBLIGATIONS
    for engine, names in obligation.proofs.items()
    for name in names
]
NOT_HELD_TO: Mapping[str, str] = {}
"""Methods of the port without an obligation, and why."""


def list_tests() -> dict[str, Test]:
    """The tests of the suite by name."""
    modules = [
        import_module(f"{suite.__name__}.{module.name}")
        for module in iter_modules(suite.__path__)
        if module.name.startswith("test_") and module.name != Path(__file__).stem
    ]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if name.startswith("test_") and inspect.iscoroutinefunction(value)
    }


TESTS = list_tests()


@pytest.mark.parametrize(("engine", "name"), PROOFS)
async def test_suite_fails_when_the_engine_is_broken(engine: type[MemoryEngine], name: str) -> None:
    with pytest.raises((AssertionError, EngineError, pytest.fail.Exception)):
        async with open_memory_lab(engine()) as lab:
            await TESTS[name](lab)


def test_every_test_is_failed_by_a_broken_engine_when_the_table_is_complete() -> None:
    proved = {name for obligation in OBLIGATIONS for names in obligation.proofs.values() for name in names}
    assert sorted(proved) == sorted(TESTS)


def test_every_broken_engine_is_in_the_table_once_when_the_table_is_complete() -> None:
    listed = [engine.__name__ for obligation in OBLIGATIONS for engine in obligation.proofs]
    written = [
        name
        for module in (broken, broken_reports, broken_sessions)
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    assert sorted(listed) == sorted(written)
    assert all(names for obligation in OBLIGATIONS for names in obligation.proofs.values())


def test_words_are_those_of_the_port_when_they_are_quoted() -> None:
    text = " ".join(inspect.getsource(port).split())
    assert [obligation.words for obligation in OBLIGATIONS if obligation.words not in text] == []


def test_every_method_has_an_obligation_when_the_table_is_complete() -> None:
    methods = {
        name: value
        for protocol in (port.Engine, port.Interactive, port.Metered, port.Channel)
        for name, value in ((f"{protocol.__name__}.{name}", value) for name, value in vars(protocol).items())
        if inspect.isfunction(value) and not value.__name__.startswith("_")
    }
    words = [obligation.words for obligation in OBLIGATIONS]
    held = {
        name
        for name, method in methods.items()
        for text in [" ".join((inspect.getdoc(method) or "").split())]
        if any(word in text for word in words)
    }
    assert methods.keys() - held == set(NOT_HELD_TO)
