"""The printed roles: no wildcard, no listing of Secrets, no writes beyond the namespaces of runs."""

from typing import Any

import pytest

from runyard.engines.kubernetes.rbac import iter_required, render_rbac

ACCOUNT = ("runyard", "server")
MODES = ("ml", None)


def list_rules(namespace: str | None, kind: str) -> list[dict[str, Any]]:
    rendered = render_rbac(namespace=namespace, account=ACCOUNT)
    return [rule for item in rendered if item["kind"] == kind for rule in item["rules"]]


@pytest.mark.parametrize("namespace", MODES)
def test_no_right_is_a_wildcard_when_roles_are_printed(namespace: str | None) -> None:
    for kind in ("Role", "ClusterRole"):
        for rule in list_rules(namespace, kind):
            assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert not ("secrets" in rule["resources"] and {"list", "watch"} & {*rule["verbs"]})


def test_only_reads_are_cluster_wide_when_there_is_one_namespace() -> None:
    assert {verb for rule in list_rules("ml", "ClusterRole") for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_writes_are_of_namespaces_and_their_policies_when_projects_have_their_own() -> None:
    roles = [item for item in render_rbac(namespace=None, account=ACCOUNT) if item["kind"] == "ClusterRole"]
    [server] = [item for item in roles if item["metadata"]["name"] == "runyard-namespaces"]
    written = {
        resource
        for rule in server["rules"]
        for resource in rule["resources"]
        if {*rule["verbs"]} - {"get", "list", "watch"}
    }
    assert written == {
        "namespaces",
        "rolebindings",
        "clusterroles",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    }
    [bind] = [rule for rule in server["rules"] if "bind" in rule["verbs"]]
    assert bind["resourceNames"] == ["runyard-project"]


def test_no_right_is_granted_twice_when_projects_have_their_own_namespaces() -> None:
    printed = render_rbac(namespace=None, account=ACCOUNT, has_view=False)
    granted = [
        (group, resource, verb, *rule.get("resourceNames", ()))
        for item in printed
        for rule in item.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    assert len(granted) == len(set(granted))
    assert ("", "pods", "list") in granted
    assert ("", "pods", "patch") in granted


@pytest.mark.parametrize("namespace", MODES)
def test_every_required_right_is_printed_when_the_engine_asks_for_it(namespace: str | None) -> None:
    rules = [*list_rules(namespace, "Role"), *list_rules(namespace, "ClusterRole")]
    for access in iter_required(namespace=namespace):
        plural = access.resource.plural + (f"/{access.subresource}" if access.subresource else "")
        assert any(
            access.verb in rule["verbs"] and plural in rule["resources"] and access.resource.group in rule["apiGroups"]
            for rule in rules
        ), access


def test_optional_reads_are_left_out_when_they_are_not_wanted() -> None:
    printed = render_rbac(namespace="ml", account=ACCOUNT, has_view=False)
    assert "runyard-cluster-view" not in {item["metadata"]["name"] for item in printed}


def test_nothing_of_another_installation_is_replaced_when_both_modes_share_a_cluster() -> None:
    accounts = (("a", "server"), ("b", "server"))
    printed = [render_rbac(namespace=mode, account=account) for mode, account in zip(MODES, accounts, strict=True)]
    by_name = [{(item["kind"], item["metadata"]["name"]): item for item in items} for items in printed]
    for key in by_name[0].keys() & by_name[1].keys():
        assert by_name[0][key] == by_name[1][key]
