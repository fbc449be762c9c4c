"""The handler and the init function: imported from the source by `function` or `module:function`."""

import difflib
import importlib
import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from .failures import NOT_PREPARED, NotPrepared, UserError
from .sources import SourceTree

MOST_CANDIDATES = 200
"""Names among which the nearest is searched, or which a message lists."""
_LISTED = 10
_REQUIREMENTS = {
    "digitalhub_runtime_python": "digitalhub-runtime-python",
    "digitalhub": "digitalhub",
    "nuclio_sdk": "nuclio-sdk",
}
"""Modules of handlers written for DigitalHub, by the requirement that provides them."""


def import_handler(tree: SourceTree, handler: str) -> Callable[..., Any]:
    """The function that `handler` names; raises `NotPrepared`, or `UserError` if the module itself raises."""
    module_name, colon, path = handler.strip().rpartition(":")
    if not path or (colon and not module_name):
        raise NotPrepared(f"the handler {_quote(handler)} must be `function` or `module:function`")
    module = _import_module(tree, module_name.removesuffix(".py").replace("/", ".") or tree.module)
    found: Any = module
    for name in path.split("."):
        if not hasattr(found, name):
            raise NotPrepared(_describe_missing(name, found, module))
        found = getattr(found, name)
    if not callable(found):
        raise NotPrepared(f"{path} of module {module.__name__} is not a function")
    return found  # type: ignore[no-any-return]


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, if any is."""
    names = list(itertools.islice(known, MOST_CANDIDATES))
    close = difflib.get_close_matches(name[:100], names, n=1, cutoff=0.6)
    return close[0] if close else None


def _import_module(tree: SourceTree, name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise NotPrepared(f"the handler's module {_quote(name)} is not the name of a Python module")
    if str(tree.root) not in sys.path:
        sys.path.insert(0, str(tree.root))
    importlib.invalidate_caches()
    file = _find_file(tree.root, name)
    try:
        if file is not None and _is_taken(name, file):
            return _import_file(name, file)
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if file is None and (name == missing or name.startswith(f"{missing}.")):
            raise NotPrepared(_describe_missing_module(tree.root, name)) from None
        raise NotPrepared(_describe_missing_requirement(missing, name)) from error
    except Exception as error:
        raise UserError(error, code=NOT_PREPARED) from error


def _find_file(root: Path, name: str) -> Path | None:
    path = root.joinpath(*name.split("."))
    found = (path.with_suffix(".py"), path / "__init__.py")
    return next((each for each in found if each.is_file()), None)


def _is_taken(name: str, file: Path) -> bool:
    """Whether a module of that name is loaded from elsewhere, such as `signal` of the standard library."""
    if name in sys.builtin_module_names:
        return True
    loaded = sys.modules.get(name)
    return loaded is not None and getattr(loaded, "__file__", None) != str(file)


def _import_file(name: str, file: Path) -> ModuleType:
    """Import the file under a name of its own; the module that has its name stays for those who use it."""
    spec = importlib.util.spec_from_file_location(f"source_{name.replace('.', '_')}", file)
    if spec is None or spec.loader is None:
        raise NotPrepared(f"{file.name} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _describe_missing(name: str, owner: Any, module: ModuleType) -> str:
    known = [each for each in dir(owner) if not each.startswith("_") and callable(getattr(owner, each, None))]
    nearest = find_nearest(name, known)
    own = [each for each in known if getattr(getattr(owner, each), "__module__", None) == module.__name__]
    text = f"module {module.__name__} has no function {_quote(name)}"
    if nearest is not None:
        return f"{text}; nearest: {nearest}"
    return f"{text}; it has {', '.join(own[:_LISTED])}" if own else text


def _describe_missing_module(root: Path, name: str) -> str:
    files = sorted(path.stem for path in itertools.islice(root.glob("*.py"), MOST_CANDIDATES))
    nearest = find_nearest(name, files)
    text = f"the source has no module {_quote(name)}"
    if nearest is not None:
        return f"{text}; nearest: {nearest}"
    listed = f"; its modules: {', '.join(files[:_LISTED])}" if files else ""
    return f"{text}{listed}; name the handler as `module:function`"


def _describe_missing_requirement(missing: str, name: str) -> str:
    top = missing.partition(".")[0]
    requirement = _REQUIREMENTS.get(top)
    if requirement is not None:
        return f"the source imports {top}, which is not installed; add {requirement} to the function's `requirements`"
    return (
        f"module {name} imports {_quote(missing)}, which is not installed; add the package that provides it to the "
        "function's `requirements`"
    )


def _quote(text: str) -> str:
    return f"`{text[:80]}`"
