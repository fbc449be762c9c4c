"""Read the document of a kept volume (size and storage class) and apply the policy's rules for claims."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from runyard.app.entities import check_project, read_draft
from runyard.app.model import Entity, Json, Principal
from runyard.domain.resolution import resolve
from runyard.domain.resolve_inputs import AdminRules, ProjectInventory, Request
from runyard.spec.names import check_dns_label, suggest_dns_label
from runyard.spec.policy import Policy
from runyard.spec.problem_codes import Code
from runyard.spec.problems import Refused
from runyard.spec.readers import Findings, expect_keys, expect_mapping, expect_option, refuse
from runyard.spec.resources import read_amount
from runyard.spec.run_fields import RunFields
from runyard.spec.volumes import RESERVED_PREFIX, Volume, read_object_name

KIND = "volume"
FIELDS = ("kind", "name", "project", "metadata", "spec")


def read_volume(document: Any, at: datetime, who: Principal, project: str) -> Entity:
    """Read a new volume; raises `Refused` with every problem."""
    findings = Findings()
    given = {"kind": KIND, **expect_mapping(document, of="a volume's fields")}
    expect_keys(given, FIELDS, findings)
    findings.read(lambda kind: expect_option(kind, what="kind", options=(KIND,)), given["kind"], "kind")
    findings.finish()
    draft = read_draft(given)
    findings.problems += check_project(draft, project)
    if draft.name is None:
        findings.add(Code.FIELD_MISSING, ("name",), "a volume needs its `name`")
    else:
        findings.read(_check_name, draft.name, "name")
    spec = findings.read(_read_spec, draft.spec, "spec")
    findings.finish()
    return Entity(
        type="volume",
        project=project,
        kind=KIND,
        name=draft.name or "",
        id=uuid4().hex,
        user=who.name,
        created_at=at,
        updated_at=at,
        updated_by=who.name,
        metadata={**draft.metadata, "project": project, "name": draft.name},
        spec=spec or {},
    )


def _check_name(name: str) -> None:
    if error := check_dns_label(name):
        raise refuse(Code.VOLUMES_NAME, error, value=name, suggestion=suggest_dns_label(name))
    if name.startswith(RESERVED_PREFIX):
        raise refuse(Code.VOLUMES_NAME, f"names that begin with `{RESERVED_PREFIX}` are the platform's", value=name)


def _read_spec(given: Any) -> Json:
    findings = Findings()
    spec = expect_mapping(given, of="a volume's size and class")
    expect_keys(spec, ("size", "storage_class"), findings)
    read: Json = {}
    if spec.get("size") is not None:
        size = findings.read(read_amount, spec["size"], "size")
        read["size"] = None if size is None else size.text
        if size is not None and size.is_zero:
            findings.add(Code.QUANTITY_ZERO, ("size",), "must be greater than zero", value=spec["size"])
    if spec.get("storage_class") is not None:
        read["storage_class"] = findings.read(read_object_name, spec["storage_class"], "storage_class")
    findings.finish()
    return read


def apply_policy(volume: Entity, policy: Policy) -> Json:
    """The spec with the policy's defaults and locks for claims with lifetime `keep`. Raises `Refused`."""
    size, storage_class = volume.spec.get("size"), volume.spec.get("storage_class")
    claim = Volume(
        name=volume.name,
        type="persistent_volume_claim",
        mount_path="/volume",
        size=None if size is None else read_amount(size),
        storage_class=storage_class,
        lifetime="keep",
    )
    fields = RunFields.model_construct(volumes=(claim,))
    request = Request(project=volume.project, action="job", run=fields)
    resolution = resolve(request, AdminRules(policy=policy), ProjectInventory())
    problems = [
        replace(one, path=("spec", *one.path[2:])) for one in resolution.refusals if one.path[:1] == ("volumes",)
    ]
    if problems:
        raise Refused(problems)
    settled = next(one for one in resolution.spec.volumes if one.name == volume.name)
    shown = {"size": None if settled.size is None else settled.size.text, "storage_class": settled.storage_class}
    return {name: value for name, value in shown.items() if value is not None}
