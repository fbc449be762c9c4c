import copy
from typing import Any

import pytest

from runyard.pods.demand import pod_limits, pod_requests
from runyard.pods.fields import UnreadablePod

Object = dict[str, Any]


def container(*, requests: Object | None = None, limits: Object | None = None, **more: Any) -> Object:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}, **more}


def pod(*containers: Object, **spec: Any) -> Object:
    return {"spec": {"containers": list(containers), **spec}}


def requests(given: Object, **options: Any) -> dict[str, str]:
    return {name: amount.text for name, amount in pod_requests(given, **options).items()}


def limits(given: Object, **options: Any) -> dict[str, str]:
    return {name: amount.text for name, amount in pod_limits(given, **options).items()}


def test_containers_are_summed_when_there_are_several() -> None:
    given = pod(container(requests={"cpu": "100m", "memory": "1Gi"}), container(requests={"cpu": 1, "gpu": "2"}))
    assert requests(given) == {"cpu": "1100m", "memory": "1Gi", "gpu": "2"}
    assert limits(given) == {}


def test_largest_init_container_counts_when_it_exceeds_the_sum() -> None:
    given = pod(
        container(requests={"cpu": "1", "memory": "2Gi"}),
        initContainers=[container(requests={"cpu": "3"}), container(requests={"cpu": "2", "memory": "1Gi"})],
    )
    assert requests(given) == {"cpu": "3", "memory": "2Gi"}


def test_sidecars_are_added_when_containers_and_later_init_containers_are_summed() -> None:
    given = pod(
        container(requests={"cpu": "1"}),
        initContainers=[
            container(requests={"cpu": "2"}),
            container(requests={"cpu": "500m"}, restartPolicy="Always"),
            container(requests={"cpu": "2"}),
        ],
    )
    assert requests(given) == {"cpu": "2500m"}


def test_sidecars_are_added_to_the_containers_when_no_init_container_is_larger() -> None:
    given = pod(
        container(requests={"cpu": "1"}),
        initContainers=[
            container(requests={"cpu": "500m"}, restartPolicy="Always"),
            container(requests={"cpu": "250m"}, restartPolicy="Always"),
        ],
    )
    assert requests(given) == {"cpu": "1750m"}


def test_demand_is_unchanged_when_there_are_ephemeral_containers() -> None:
    given = pod(container(requests={"cpu": "1"}), ephemeralContainers=[container(requests={"cpu": "9"})])
    assert requests(given) == {"cpu": "1"}


def test_overhead_is_added_when_there_are_requests_or_limits() -> None:
    given = pod(
        container(requests={"cpu": "1"}, limits={"memory": "1Gi", "gpu": "0"}),
        overhead={"cpu": "250m", "memory": "120Mi", "gpu": "1"},
    )
    assert requests(given) == {"cpu": "1250m", "memory": "1144Mi", "gpu": "1"}
    assert limits(given) == {"memory": "1144Mi", "gpu": "0"}


def test_limit_is_also_the_request_when_none_is_said() -> None:
    given = pod(container(requests={"cpu": "1"}, limits={"cpu": "2", "gpu": "1"}))
    assert requests(given) == {"cpu": "1", "gpu": "1"}
    assert requests(given, apply_defaults=False) == {"cpu": "1"}


def test_pod_level_resources_replace_the_sum_when_they_are_set() -> None:
    given = pod(
        container(requests={"cpu": "1", "gpu": "1"}),
        resources={"requests": {"cpu": "5", "gpu": "9"}, "limits": {"memory": "1Gi"}},
    )
    assert requests(given) == {"cpu": "5", "gpu": "1", "memory": "1Gi"}
    assert limits(given) == {"memory": "1Gi"}


def test_pod_level_requests_follow_sums_first_when_only_limits_are_said() -> None:
    given = pod(container(requests={"cpu": "1"}), resources={"limits": {"cpu": "4", "memory": "2Gi"}})
    assert requests(given) == {"cpu": "1", "memory": "2Gi"}


def test_huge_pages_are_limited_by_the_containers_when_the_pod_says_something() -> None:
    given = pod(container(limits={"hugepages-2Mi": "4Mi"}), resources={"limits": {"cpu": "1"}})
    assert limits(given) == {"cpu": "1", "hugepages-2Mi": "4Mi"}
    assert requests(given) == {"cpu": "1", "hugepages-2Mi": "4Mi"}


def test_huge_pages_of_the_pod_win_over_the_containers_when_both_are_set() -> None:
    given = pod(container(limits={"hugepages-2Mi": "4Mi"}), resources={"limits": {"hugepages-2Mi": "8Mi"}})
    assert limits(given) == {"hugepages-2Mi": "8Mi"}
    assert requests(given) == {"hugepages-2Mi": "8Mi"}


def test_amounts_are_rounded_up_to_thousandths_when_they_are_finer() -> None:
    given = pod(container(requests={"cpu": "100u"}), container(requests={"cpu": "1n"}))
    assert requests(given) == {"cpu": "2m"}
    assert requests(given, apply_defaults=False) == {"cpu": "100001n"}


def test_spec_and_template_are_taken_when_no_pod_is_around_them() -> None:
    given = pod(container(requests={"cpu": "1"}))
    assert requests(given["spec"]) == {"cpu": "1"}
    assert requests({"metadata": {"labels": {}}, **given}) == {"cpu": "1"}


def test_pod_is_left_as_it_was_when_it_is_counted() -> None:
    given = pod(container(limits={"cpu": "1u"}), resources={"limits": {"memory": "1"}}, overhead={"cpu": "1"})
    before = copy.deepcopy(given)
    pod_requests(given)
    pod_limits(given)
    assert given == before


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({}, "spec"),
        ({"spec": None}, "spec"),
        ({"spec": []}, "spec"),
        ({"containers": {}}, "containers"),
        ({"spec": {"containers": ["x"]}}, "spec.containers[0]"),
        (pod({"resources": []}), "spec.containers[0].resources"),
        (pod({"resources": {"requests": ["cpu"]}}), "spec.containers[0].resources.requests"),
        (pod(container(requests={"cpu": True})), "spec.containers[0].resources.requests.cpu"),
        (pod(container(requests={"cpu": {}})), "spec.containers[0].resources.requests.cpu"),
        (pod(container(limits={"cpu": "1 core"})), "spec.containers[0].resources.limits.cpu"),
        (pod(container(limits={"cpu": float("nan")})), "spec.containers[0].resources.limits.cpu"),
        (pod({"resources": {"limits": {1: "1"}}}), "spec.containers[0].resources.limits"),
        (pod(initContainers=[container(restartPolicy=True)]), "spec.initContainers[0].restartPolicy"),
        (pod(overhead="1"), "spec.overhead"),
        (pod(resources={"limits": {"memory": ""}}), "spec.resources.limits.memory"),
    ],
)
def test_place_is_named_when_something_cannot_be_read(given: Object, where: str) -> None:
    for count in (pod_requests, pod_limits):
        with pytest.raises(UnreadablePod) as caught:
            count(given)
        assert caught.value.problem.where == where
        assert isinstance(caught.value, ValueError)


def test_sum_is_refused_when_it_would_fill_the_memory() -> None:
    given = pod(container(requests={"cpu": "1e2000000000"}), container(requests={"cpu": "1"}))
    with pytest.raises(UnreadablePod, match="spec: "):
        pod_requests(given)
