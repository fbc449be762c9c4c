"""Which packages have the modules that a function imports, and in which versions they are installed here."""

import sys
from collections.abc import Iterable
from importlib.metadata import distribution, packages_distributions


def find_requirements(modules: Iterable[str]) -> tuple[list[str], list[str]]:
    """`name==version` for each package, and why others cannot be required. The standard library needs none."""
    roots = {module.partition(".")[0] for module in modules}
    outside = sorted(roots - sys.stdlib_module_names)
    owners = packages_distributions() if outside else {}  # reads the metadata of all packages
    requirements: set[str] = set()
    problems = []
    for module in outside:
        names = sorted(set(owners.get(module, ())))
        if not names:  # a module of the user, or an installation in editable mode
            problems.append(f"it imports `{module}`, which is of this machine alone")
        elif len(names) > 1:
            problems.append(f"it imports `{module}`, which several packages have: {', '.join(names)}")
        elif distribution(names[0]).read_text("direct_url.json") is not None:
            problems.append(f"it imports `{module}` of {names[0]}, which was not installed from an index")
        else:
            requirements.add(f"{names[0]}=={distribution(names[0]).version}")
    return sorted(requirements), problems
