"""An import-linter contract: each third-party library has one owner.

A row `aiohttp -> runyard.kube` allows only `runyard.kube` to import aiohttp. The contract is broken by an import of a
library that has no row, by an import outside the owners, and by an owner that no longer imports its library.
"""

import sys
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class OwnersContract(Contract):
    """The table of libraries and owners, compared with every import of the root packages."""

    type_name = "owners"

    owners = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Compare; the report lists every offending import and every unused row or owner."""
        table = dict(self._parse_row(row) for row in self.owners)  # type: ignore[attr-defined]  # a field
        roots = tuple(self.session_options["root_packages"])
        problems = list(_iter_problems(graph, table, roots=roots))
        return ContractCheck(kept=not problems, metadata={"problems": problems})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print what was found."""
        for problem in check.metadata["problems"]:
            output.print_error(problem)

    @staticmethod
    def _parse_row(row: str) -> tuple[str, list[str]]:
        library, _, owners = row.partition("->")
        return library.strip(), [owner.strip() for owner in owners.split(",")]


def _iter_problems(graph: ImportGraph, table: dict[str, list[str]], *, roots: tuple[str, ...]) -> Any:
    used = set()
    for library in sorted(graph.modules):
        if library.split(".")[0] in roots or library.split(".")[0] in sys.stdlib_module_names:
            continue
        importers = sorted(graph.find_modules_that_directly_import(library))
        if not importers:
            continue
        used.add(library)
        owners = table.get(library, [])
        if not owners:
            yield f"{library} has no owner, and {', '.join(importers)} imports it: add a row"
            continue
        for importer in importers:
            if not any(_is_inside(importer, owner) for owner in owners):
                yield f"{importer} imports {library}, which belongs to {', '.join(owners)}"
        for owner in owners:
            if not any(_is_inside(importer, owner) for importer in importers):
                yield f"{owner} owns {library} and does not import it: remove it from the row"
    for library in sorted(table.keys() - used):
        yield f"{library} has a row and nothing imports it: remove the row"


def _is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
