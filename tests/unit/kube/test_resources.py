"""Paths: right for every shape of address, and never to something else than was asked for."""

import pytest

from runyard.kube import resources
from runyard.kube.resources import CLUSTER_ROLES, JOBS, NAMESPACES, NODES, PODS, Resource


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path(namespace="a"), "/api/v1/namespaces/a/pods"),
        (PODS.path(namespace="a", name="b"), "/api/v1/namespaces/a/pods/b"),
        (
            PODS.path(namespace="a", name="b", subresource="eviction"),
            "/api/v1/namespaces/a/pods/b/eviction",
        ),
        (JOBS.path(namespace="a", name="b.c"), "/apis/batch/v1/namespaces/a/jobs/b.c"),
        (NODES.path(name="k8s.gpu"), "/api/v1/nodes/k8s.gpu"),
        (NAMESPACES.path(name="x", subresource="finalize"), "/api/v1/namespaces/x/finalize"),
        (
            CLUSTER_ROLES.path(name="system:node"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
        ),
        (
            CLUSTER_ROLES.path(name="a b?c#d;é"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%20b%3Fc%23d%3B%C3%A9",
        ),
    ],
)
def test_path_is_quoted_when_it_is_built(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize("name", ["", ".", "..", "../secrets/x", "a/b", "%2e%2e", "a%2fb", "a\nb", "a\x00", "a\x7f"])
def test_name_is_refused_when_it_would_address_something_else(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name an object"):
        PODS.path(namespace="a", name=name)


@pytest.mark.parametrize("namespace", ["", "..", "A", "a.b", "a/b", "a%2fb", "-a", "a-", "a" * 64, "a\n"])
def test_namespace_is_refused_when_it_is_no_label(namespace: str) -> None:
    with pytest.raises(ValueError, match="not a DNS label"):
        PODS.path(namespace=namespace)


@pytest.mark.parametrize("subresource", ["", "Status", "../x", "log?follow", "a/b", "status\n"])
def test_subresource_is_refused_when_it_is_no_word(subresource: str) -> None:
    with pytest.raises(ValueError, match="sub-resource"):
        PODS.path(namespace="a", name="b", subresource=subresource)


def test_path_is_refused_when_a_part_is_missing_or_too_much() -> None:
    with pytest.raises(ValueError, match="needs a namespace"):
        PODS.path(name="b")
    with pytest.raises(ValueError, match="not namespaced"):
        NODES.path(namespace="a")
    with pytest.raises(ValueError, match="needs a name"):
        PODS.path(namespace="a", subresource="log")


@pytest.mark.parametrize(
    ("group", "version", "plural"),
    [
        ("batch/v2", "v1", "jobs"),
        ("..", "v1", "jobs"),
        ("batch", "v1/", "jobs"),
        ("batch", "", "jobs"),
        ("", "v1", "p/q"),
    ],
)
def test_resource_is_refused_when_a_part_would_leave_its_place(group: str, version: str, plural: str) -> None:
    with pytest.raises(ValueError, match="is not a DNS"):
        Resource(group, version, plural, "Job", namespaced=True)


def test_constants_are_distinct_when_compared() -> None:
    constants = [value for value in vars(resources).values() if isinstance(value, Resource)]
    assert len({resource.path() for resource in constants}) == len(constants)
    plurals = {name: value.plural for name, value in vars(resources).items() if isinstance(value, Resource)}
    # The only ones whose paths are named after something else than their kind.
    assert (plurals.pop("POD_METRICS"), plurals.pop("NODE_METRICS")) == ("pods", "nodes")
    assert all(name.removesuffix("_V1BETA1").replace("_", "").lower() == plural for name, plural in plurals.items())


def test_api_version_is_as_objects_say_it_when_asked() -> None:
    assert PODS.api_version == "v1"
    assert JOBS.api_version == "batch/v1"
