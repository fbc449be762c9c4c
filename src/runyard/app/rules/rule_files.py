"""Import profiles and the policy from files when the server starts.

A changed file adds a revision, an unchanged one does not. A file overrides changes made by the API; the audit shows it.
Profiles whose file is gone are deleted; profiles created by the API stay.
"""

from collections.abc import Mapping
from typing import Any, Literal

from runyard.app.audit import audit
from runyard.app.core import Core
from runyard.app.model import Json, Principal
from runyard.app.ports import UnitOfWork
from runyard.app.rules.current_rules import POLICY_NAME
from runyard.spec.policy import lint_policy, read_policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Problem, Refused
from runyard.spec.profile_documents import load_profile_files, split_profile_file
from runyard.spec.yaml.loader import load_documents

FILES = Principal(name="files", is_admin=True, via="system")
"""The author in revisions and audit."""


async def import_profiles(core: Core, files: Mapping[str, str]) -> list[Problem]:
    """Import the profiles of files (texts by name), all or none. Returns warnings; raises `Refused`."""
    _, warnings = load_profile_files(files)
    documents: dict[str, Json] = {}
    for name, text in files.items():
        documents |= split_profile_file(text, source=name)
    async with core.store.begin() as unit:
        for name, document in documents.items():
            await _put(core, unit, "profile", name, document)
        for revision in await unit.revisions.list_current(kind="profile"):
            if revision.user == FILES.name and revision.name not in documents:
                await _put(core, unit, "profile", revision.name, None)
        await unit.commit()
    return warnings


async def import_policy(core: Core, text: str, *, name: str) -> list[Problem]:
    """Import the policy of a file. Raises `Refused` with every problem. Returns warnings."""
    documents = load_documents(text, source=name)
    if len(documents) != 1:
        raise Refused([Problem(Code.POLICY_COUNT, (), f"{name}: must be one document, not {len(documents)}")])
    policy = read_policy(documents[0].data)
    async with core.store.begin() as unit:
        await _put(core, unit, "policy", POLICY_NAME, documents[0].data or {})
        await unit.commit()
    return [*documents[0].warnings, *lint_policy(policy)]


async def _put(core: Core, unit: UnitOfWork, kind: Literal["profile", "policy"], name: str, document: Any) -> None:
    known = await unit.revisions.find(kind, name)
    if (known.document if known is not None else None) == document:
        return
    revision = await unit.revisions.put(kind, name, document, user=FILES.name)
    action = f"{kind}.put" if document is not None else f"{kind}.delete"
    await audit(core, unit, FILES, action, details={"name": name, "revision": revision.revision})
