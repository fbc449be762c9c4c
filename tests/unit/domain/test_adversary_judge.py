"""Self-tests of the adversary's judge: each breaks the product on purpose, and the judge must notice."""

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tests.adversary
from runyard.domain.resolution import resolve
from runyard.manifests import metadata
from runyard.manifests.metadata import make_marks
from runyard.manifests.workloads import render_workload
from runyard.spec.policy import Policy
from tests.adversary import bypasses, victim
from tests.adversary.boundaries import STEPS, USER_FIELDS, ask, step
from tests.adversary.cases import Case, Raw, World
from tests.adversary.draws import Draws
from tests.adversary.judge import judge_objects, judge_silence
from tests.adversary.raw import read_scopes
from tests.adversary.ruled_images import ask_ruled_image
from tests.adversary.trial import Stage, admit, make_stage, play, read_case, render_case
from tests.adversary.victim import Victim

JUDGES = Path(tests.adversary.__file__).parent
OWN_CODE = ("cases", "facts", "images", "platform_access", "snapshots", "tolerations")
"""Modules that the judge uses, beside `judge*` and `raw*`."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def iter_imports(module: str) -> list[str]:
    tree = ast.parse((JUDGES / f"{module}.py").read_text())
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return plain + [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]


def test_judge_shares_no_code_with_the_product_when_its_imports_are_read() -> None:
    modules = sorted({path.stem for pattern in ("judge*.py", "raw*.py") for path in JUDGES.glob(pattern)} | {*OWN_CODE})
    imports = {name for module in modules for name in iter_imports(module)}

    assert {name for name in imports if name.startswith("runyard")} == {"runyard.spec.kubernetes.quantity"}
    assert {name for name in imports if name.startswith("tests")} <= {f"tests.adversary.{name}" for name in modules}
    assert len(modules) > 10


def render_unchecked(case: Case, stage: Stage, monkeypatch: pytest.MonkeyPatch, *skipped: str) -> Any:
    """The objects of a case, rendered by a resolver that skips these steps."""
    with monkeypatch.context() as patch:
        for name in skipped:
            patch.setattr(f"runyard.domain.resolution.{name}", lambda *_, **__: [])
        resolution = resolve(read_case(case), stage.admin_rules, stage.inventory)
        assert not resolution.refusals
        return render_case(case, stage, resolution)


def make_case(field: str, value: Any) -> Case:
    action = "serve" if field == "replicas" else "job"
    return Case(action=action, run={"image": "busybox:1.36", **ask(field, value)})


BOUNDS: dict[str, Any] = {
    **{field: 4 for field in USER_FIELDS if field.startswith("resources.cpu")},
    **{field: "4Gi" for field in USER_FIELDS if field.startswith("resources.mem")},
    "resources.gpu": 4,
    **dict.fromkeys(("resources.disk", "volumes.size", "volumes.size_limit"), "4Gi"),
    **dict.fromkeys(("run_as_user", "run_as_group", "fs_group"), 2000),
    **dict.fromkeys(("replicas", "backoff_limit"), 3),
    **dict.fromkeys(("timeout", "pending_timeout", "ttl", "grace_period"), 3600),
}


def test_every_figure_has_a_bound_when_users_can_ask_for_it() -> None:
    assert BOUNDS.keys() == {*USER_FIELDS}


@pytest.mark.parametrize("units", STEPS)
@pytest.mark.parametrize("clause", ["max", "min"])
@pytest.mark.parametrize("field", USER_FIELDS)
def test_resolver_judge_and_admission_agree_when_a_value_is_one_unit_from_a_bound(
    field: str, clause: str, units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = make_stage(World(policy={field: {clause: BOUNDS[field]}}))
    case = make_case(field, step(field, BOUNDS[field], units))
    is_beyond = units > 0 if clause == "max" else units < 0

    resolution = resolve(read_case(case), stage.admin_rules, stage.inventory)
    objects = render_unchecked(case, stage, monkeypatch, "check_rules")

    assert {problem.code for problem in resolution.refusals} == ({f"policy.{clause}"} if is_beyond else set())
    assert bool(judge_objects(objects, case, stage.documents)) == is_beyond
    assert bool(admit(objects, case, stage, resolution)) == is_beyond


@pytest.mark.parametrize("rule", [{"options": "others"}, {"locked": True}], ids=["options", "locked"])
@pytest.mark.parametrize("field", USER_FIELDS)
def test_judge_complains_when_a_resolver_takes_a_max_for_the_admins_own_value(
    field: str, rule: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = BOUNDS[field]
    options = {"options": [step(field, bound, -2)]} if "options" in rule else rule
    stage = make_stage(World(policy={field: {"max": bound, **options}}))
    case = make_case(field, bound)

    objects = render_unchecked(case, stage, monkeypatch, "check_rules", "apply_locks")

    assert resolve(read_case(case), stage.admin_rules, stage.inventory).refusals
    assert judge_objects(objects, case, stage.documents)


BLANKS = ["resources.cpu.limits", "volumes.size", "volumes.size_limit", "timeout", "pending_timeout", "ttl"]


@pytest.mark.parametrize("field", BLANKS)
def test_judge_is_content_when_a_max_fills_a_blank(field: str) -> None:
    volumes = [
        {"volume_type": "ephemeral", "name": "a", "mount_path": "/a"},
        {"volume_type": "empty_dir", "name": "b", "mount_path": "/b"},
    ]
    bound = "1Gi" if field == "volumes.size" else BOUNDS[field]
    policy = {field: {"max": bound, "options": [step(field, bound, -2)]}}
    outcome = play(Case(run={"image": "busybox:1.36", "volumes": volumes}), make_stage(World(policy=policy)))

    assert (outcome.verdict, outcome.complaints) == ("accepted", ())


def make_reaching_case(term: Raw) -> Case:
    affinity = {"podAffinity": {REQUIRED: [{"topologyKey": "zone", **term}]}}
    return Case(run={"image": "busybox:1.36", "affinity": affinity})


@pytest.mark.parametrize(
    ("term", "allowed", "is_denied"),
    [
        ({"namespaces": ["kube-system"]}, ["speech"], True),
        ({"namespaces": ["kube-system"]}, ["kube-*"], False),
        ({"namespaceSelector": {}}, ["speech"], True),
        ({"namespaceSelector": {}}, ["*"], False),
    ],
)
def test_judge_complains_when_a_resolver_forgets_the_projects_own_namespaces(
    term: Raw, allowed: list[str], is_denied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = {"allowed": ["*"]}
    narrow = {"vision": {"affinity.namespaces": {"allowed": allowed}}}
    stage = make_stage(World(policy={"affinity.namespaces": rule, "projects": narrow}))
    case = make_reaching_case(term)

    objects = render_unchecked(case, stage, monkeypatch, "check_denials")

    assert bool(resolve(read_case(case), stage.admin_rules, stage.inventory).refusals) == is_denied
    assert bool(judge_objects(objects, case, stage.documents)) == is_denied


@pytest.mark.parametrize(
    ("image", "is_denied"),
    [
        ("10.0.0.5:5000/x:1", True),
        ("[::ffff:a00:5]:5000/x:1", True),
        ("[0:0:0:0:0:FFFF:0A00:0005]:5000/x:1", True),
        ("[::ffff:a00:6]:5000/x:1", False),
        ("[::a00:5]:5000/x:1", False),
    ],
)
def test_judge_and_product_agree_when_a_denied_registry_is_named_in_ipv6(
    image: str, monkeypatch: pytest.MonkeyPatch, *, is_denied: bool
) -> None:
    stage, case = make_stage(World(policy={"image": {"denied": ["10.0.0.5:5000/*"]}})), Case(run={"image": image})
    objects = render_unchecked(case, stage, monkeypatch, "check_rules")
    assert bool(resolve(read_case(case), stage.admin_rules, stage.inventory).refusals) == is_denied
    assert bool(judge_objects(objects, case, stage.documents)) == is_denied


def test_users_name_a_ruled_registry_in_ipv6_when_its_rule_has_an_ipv4_address() -> None:
    scopes = read_scopes({"image": {"denied": ["10.0.0.5:5000/*"]}}, "vision")
    drawn = {ask_ruled_image(Draws(f"{number}"), scopes)["image"] for number in range(300)}
    assert {"[::ffff:a00:5]:5000/x", "[0:0:0:0:0:FFFF:0A00:0005]:5000/x"} <= drawn


def mark_as_visions(*arguments: Any, **more: Any) -> Any:
    return replace(make_marks(*arguments, **more), namespace="runyard-vision")


def test_judge_complains_when_a_renderer_uses_another_projects_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, case = make_stage(World()), Case(project="speech", run={"image": "busybox:1.36"})
    assert play(case, stage).verdict == "accepted"

    monkeypatch.setattr("runyard.manifests.render.make_marks", mark_as_visions)

    assert "namespace: Job in runyard-vision" in play(case, stage).complaints


def get_first_narrowed_scopes(policy: Policy, _: str) -> Any:
    """Scopes as a policy would give them that keeps only one narrowed project in mind."""
    return (*GET_SCOPES(policy, "nobody"), next(iter(policy.projects.values())))


GET_SCOPES = Policy.get_scopes


def test_judge_complains_when_all_projects_get_the_rules_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    projects = {name: {"resources.cpu": {"max": most}} for name, most in (("vision", 8), ("speech", 2), ("audio", 4))}
    stage = make_stage(World(policy={"projects": projects}))
    cases = [Case(project=name, run={"image": "busybox:1.36", "resources": {"cpu": 4}}) for name in projects]
    assert [play(case, stage).verdict for case in cases] == ["accepted", "refused", "accepted"]

    monkeypatch.setattr(Policy, "get_scopes", get_first_narrowed_scopes)

    assert [play(case, stage).complaints for case in cases] == [
        (),
        ("policy of speech: resources.cpu 4 is above 2",),
        (),
    ]


def start_at_once(*arguments: Any, is_anchor: bool = False) -> Any:
    return render_workload(*arguments, is_anchor=False)


def own_by_another(owner: Any) -> Any:
    return RENDER_OWNER(replace(owner, uid="11111111-0000-0000-0000-000000000000"))


def own_nothing(run_marks: Any, name: str | None = None, **more: Any) -> Any:
    return RENDER_METADATA(replace(run_marks, owner=None), name, **more)


RENDER_OWNER = metadata._render_owner
RENDER_METADATA = metadata.Marks.render_metadata
ANCHOR_MUTANTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "starts at once": ("runyard.manifests.render.render_workload", start_at_once),
    "is not the owner": ("runyard.manifests.metadata._render_owner", own_by_another),
    "owns nothing": ("runyard.manifests.metadata.Marks.render_metadata", own_nothing),
    "owns what is kept": ("runyard.manifests.volumes._is_kept", lambda _: False),
}


@pytest.mark.parametrize("action", ["job", "serve"])
@pytest.mark.parametrize("name", ANCHOR_MUTANTS)
def test_judge_complains_when_an_anchor_is_rendered_wrongly(
    name: str, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"volume_type": "persistent_volume_claim", "name": "a", "mount_path": "/a", "spec": {"lifetime": "keep"}}
    run = {"image": "busybox:1.36", "secrets": ["TOKEN"], "volumes": [kept], "ttl": 60, "replicas": 2}
    case = Case(action=action, run=run, is_anchor=True)
    stage = make_stage(World(secrets={"TOKEN": "t"}))
    assert play(case, stage).verdict == "accepted"

    monkeypatch.setattr(*ANCHOR_MUTANTS[name])

    complaints = play(case, stage).complaints
    assert any(complaint.startswith(("anchor: ", "owner: ")) for complaint in complaints)


@pytest.mark.parametrize("version", ["1.18", "1.34", "latest"])
def test_judge_complains_when_a_validator_ignores_pod_security(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage(replace(victim.NO_POLICY, kubernetes_version=version))
    resolution = resolve(read_case(victim.JOB), stage.admin_rules, stage.inventory)
    changed = Victim(render_case(victim.JOB, stage, resolution))
    bypasses.POD_SECURITY_BYPASSES["capabilities kept"](changed)

    monkeypatch.setattr("runyard.domain.admission.pods.check_template_security", lambda *_, **__: ())

    assert admit(changed.objects, victim.JOB, stage, resolution) == []
    assert judge_objects(changed.objects, victim.JOB, stage.documents) == ["security: less than restricted"]


def test_judge_complains_when_neither_resolver_nor_validator_knows_denials(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(run={"image": "busybox:1.36", "priority_class": "system-node-critical"})
    monkeypatch.setattr("runyard.domain.resolution.check_denials", lambda *_: [])
    monkeypatch.setattr("runyard.domain.admission.objects.check_denials", lambda *_: [])

    assert play(case, make_stage(World())).complaints == ("denied: priority class system-node-critical",)


ASKED: dict[str, tuple[Raw, Callable[[Victim], Any]]] = {
    "variable": ({"envs": {"A": "b"}}, lambda sent: sent.container["env"].remove({"name": "A", "value": "b"})),
    "node label": ({"node_selector": {"pool": "gpu"}}, lambda sent: sent.pod.pop("nodeSelector")),
    "toleration": ({"tolerations": [{"key": "spot"}]}, lambda sent: sent.pod.pop("tolerations")),
    "affinity": ({"affinity": {"nodeAffinity": {}}}, lambda sent: sent.pod.pop("affinity")),
    "amount": ({"resources": {"cpu": 1}}, lambda sent: sent.container["resources"]["requests"].pop("cpu")),
    "GPUs": ({"resources": {"gpu": 1}}, lambda sent: sent.container["resources"]["limits"].pop("nvidia.com/gpu")),
    "disk": (
        {"resources": {"disk": "1Gi"}},
        lambda sent: sent.find_volume("runyard-scratch")["ephemeral"]["volumeClaimTemplate"]["spec"]["resources"][
            "requests"
        ].update(storage="2Gi"),
    ),
    "secret": ({"secrets": ["TOKEN"]}, lambda sent: sent.container["env"].pop()),
    "secret file": (
        {"secrets": [{"name": "TOKEN", "mount_path": "/t"}]},
        lambda sent: sent.container["volumeMounts"].pop(),
    ),
    "volume": (
        {"volumes": [{"volume_type": "empty_dir", "name": "a", "mount_path": "/a"}]},
        lambda sent: sent.container["volumeMounts"][0].update(mountPath="/b"),
    ),
    "command": ({"command": ["python"]}, lambda sent: sent.container.pop("command")),
    "timeout": ({"timeout": "1h"}, lambda sent: sent.workload["spec"].update(activeDeadlineSeconds=60)),
}


@pytest.mark.parametrize("name", ASKED)
def test_judge_complains_when_a_renderer_leaves_something_out_in_silence(name: str) -> None:
    fields, leave_out = ASKED[name]
    case, stage = Case(run={"image": "busybox:1.36", **fields}), make_stage(World(secrets={"TOKEN": "t"}))
    resolution = resolve(read_case(case), stage.admin_rules, stage.inventory)
    sent = Victim(render_case(case, stage, resolution))
    answer = resolution.spec.to_dict()
    assert judge_silence(sent.objects, case, stage.documents, warned=[], answer=answer) == []

    leave_out(sent)

    (complaint,) = judge_silence(sent.objects, case, stage.documents, warned=[], answer=answer)
    assert complaint.startswith("silence: ")


def test_judge_complains_when_a_resolver_forgets_what_no_object_holds() -> None:
    run = {"image": "busybox:1.36", "command": ["python"], "parameters": {"x": 1}}
    case, stage = Case(kind="python", run=run), make_stage(World())
    resolution = resolve(read_case(case), stage.admin_rules, stage.inventory)
    objects, answer = render_case(case, stage, resolution), resolution.spec.to_dict()
    assert judge_silence(objects, case, stage.documents, warned=[], answer=answer) == []

    del answer["parameters"]

    assert len(judge_silence(objects, case, stage.documents, warned=[], answer=answer)) == 1
    assert judge_silence(objects, case, stage.documents, warned=[("parameters",)], answer=answer) == []
