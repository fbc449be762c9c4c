"""What `runyard node manifests` prints."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from runyard.cli.commands.node_manifests import manifests

OFFER = """
capacity: {cpu: "63", memory: 263567056Ki, nvidia.com/gpu: 8, pods: 8}
shapes:
- {name: seeweb-nvidia-1xa6000, handler: nvidia, limits: {cpu: 8000m, memory: 32861620Ki, gpu: 1}}
"""


def print_objects(folder: Path, *flags: str) -> list[dict[str, Any]]:
    (folder / "offer.yaml").write_text(OFFER)
    arguments = ["--image=runyard:1", f"--offer={folder / 'offer.yaml'}", "--provider-secret=gpu", *flags]
    done = CliRunner().invoke(manifests, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.output))


def test_everything_is_printed_when_an_agent_is_installed(tmp_path: Path) -> None:
    objects = print_objects(tmp_path)
    kinds = [one["kind"] for one in objects]
    assert kinds[0] == "ServiceAccount"
    assert kinds[-1] == "Deployment"
    assert {"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy", "ConfigMap"} < set(kinds)
    assert next(one for one in objects if one["kind"] == "ConfigMap")["data"]["offer.yaml"] == OFFER


def test_the_agents_user_is_let_through_when_another_account_is_chosen(tmp_path: Path) -> None:
    objects = print_objects(tmp_path, "--service-account=gpu/agent")
    policy = next(one for one in objects if one["kind"] == "ValidatingAdmissionPolicy")
    assert "system:serviceaccount:gpu:agent" in str(policy["spec"])
    assert objects[-1]["metadata"]["namespace"] == "gpu"


def test_the_default_scheduler_alone_binds_when_figures_are_static(tmp_path: Path) -> None:
    objects = print_objects(tmp_path, "--allocatable=static")
    policy = next(one for one in objects if one["kind"] == "ValidatingAdmissionPolicy")
    assert "username == 'system:kube-scheduler'" in policy["spec"]["validations"][0]["expression"]
    assert "serviceaccount" not in str(policy["spec"])
    filling = next(one for one in objects if one["kind"] == "MutatingAdmissionPolicy")
    assert "schedulerName" not in str(filling["spec"])
    assert "--allocatable=static" in objects[-1]["spec"]["template"]["spec"]["containers"][0]["args"]
    role = next(one for one in objects if one["kind"] == "ClusterRole")
    assert "pods/binding" not in str(role["rules"])


def test_the_agent_gets_its_gateway_when_routes_are_http_routes(tmp_path: Path) -> None:
    deployment = print_objects(tmp_path, "--routes=httproute", "--gateway=infra/public")[-1]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--routes=httproute", "--gateway=infra/public"} <= set(arguments)


def test_no_role_has_a_wildcard_when_roles_are_printed(tmp_path: Path) -> None:
    roles = [one for one in print_objects(tmp_path) if one["kind"] in ("Role", "ClusterRole")]
    assert roles
    for role in roles:
        for rule in role["rules"]:
            assert "*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])


def test_only_its_own_node_may_be_changed_when_roles_are_printed(tmp_path: Path) -> None:
    role = next(one for one in print_objects(tmp_path) if one["kind"] == "ClusterRole")
    rules = [rule for rule in role["rules"] if {"nodes", "nodes/status"} & set(rule["resources"])]
    named = [rule for rule in rules if {"patch", "delete"} & set(rule["verbs"])]
    assert [rule["resourceNames"] for rule in named] == [["k8s.gpu"]] * len(named)


def test_pod_of_the_agent_is_restricted_when_it_is_deployed(tmp_path: Path) -> None:
    spec = print_objects(tmp_path)[-1]["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--provider-side=team-a"], "must be NS/NAME"),
        (["--image=x"], "missing: --offer, --provider-secret"),
        (["--image=x", "--provider-secret=p", "--offer=OFFER", "--tenant=" + "a" * 27, "--domain=d"], "26 characters"),
        (["--image=x", "--provider-secret=p", "--offer=OFFER", "--service-account=a"], "must be NS/NAME"),
        (["--image=x", "--provider-secret=p", "--offer=OFFER", "--routes=httproute"], "--gateway is missing"),
        (["--image=x", "--provider-secret=p", "--offer=OFFER", "--gateway=a/b"], "use --routes httproute"),
        (
            ["--image=x", "--provider-secret=p", "--offer=OFFER", "--routes=httproute", "--gateway=public"],
            "must be NS/NAME or NS/NAME/LISTENER, such as infra/public",
        ),
        (
            ["--image=x", "--provider-secret=p", "--offer=OFFER", "--routes=httproute", "--gateway=infra/public/"],
            "must be NS/NAME or NS/NAME/LISTENER",
        ),
        (
            ["--image=x", "--provider-secret=p", "--offer=OFFER", "--routes=service", "--ingress-class=nginx"],
            "--ingress-class has no meaning with --routes service",
        ),
    ],
)
def test_mistake_is_named_when_an_option_is_wrong(tmp_path: Path, flags: list[str], words: str) -> None:
    (tmp_path / "offer.yaml").write_text(OFFER)
    done = CliRunner().invoke(manifests, [flag.replace("OFFER", str(tmp_path / "offer.yaml")) for flag in flags])
    assert done.exit_code != 0
    assert words in done.output


def test_account_and_role_are_printed_when_the_provider_is_asked_for() -> None:
    done = CliRunner().invoke(manifests, ["--provider-side=team-a/runyard"], catch_exceptions=False)
    objects = list(yaml.safe_load_all(done.output))
    assert [one["kind"] for one in objects] == ["Namespace", "ServiceAccount", "Role", "RoleBinding"]
    assert {one["metadata"].get("namespace", "team-a") for one in objects} == {"team-a"}
