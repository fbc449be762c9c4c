import copy
from typing import Any

import pytest
from hypothesis import given

from runyard.node.admission.filling import MOST_CONTAINERS, fill_pod, plan_fillings
from runyard.node.admission.judgement import find_demand
from runyard.node.amounts import count_down, count_up
from runyard.node.offer import CPU, GPU, MEMORY, Shape
from runyard.pods.fields import UnreadablePod
from tests.unit.node.admission.pods import ONE, TWO, Object, container, generated_pods, parse, pod


def limits_after(given_pod: Object, shape: Shape = ONE) -> dict[str, dict[str, Any]]:
    filled = fill_pod(given_pod, plan_fillings(given_pod, shape))
    spec = filled["spec"]
    return {
        each["name"]: each["resources"].get("limits", {})
        for each in spec["containers"] + spec.get("initContainers", [])
    }


def test_everything_is_filled_when_a_pod_states_nothing() -> None:
    assert limits_after(pod(container())) == {"nvidia": {CPU: "8000m", MEMORY: "32861620Ki", GPU: "1"}}


def test_cpu_and_memory_are_filled_when_only_the_gpu_is_stated() -> None:
    assert limits_after(pod(container(gpu=1))) == {"nvidia": {CPU: "8000m", MEMORY: "32861620Ki", GPU: 1}}


def test_nothing_is_filled_when_everything_is_stated() -> None:
    assert plan_fillings(pod(container(gpu=1, memory="16Gi", cpu=2)), ONE) == ()


def test_gpus_go_to_the_first_container_when_none_states_them() -> None:
    after = limits_after(pod(container("a", cpu=1, memory="1Gi"), container("b", cpu=1, memory="1Gi")), TWO)
    assert after == {"a": {CPU: 1, MEMORY: "1Gi", GPU: "2"}, "b": {CPU: 1, MEMORY: "1Gi"}}


def test_no_gpu_is_added_when_a_container_states_zero() -> None:
    after = limits_after(pod(container("ollama", gpu=1), container("webui", gpu=0)), TWO)
    assert (after["ollama"][GPU], after["webui"][GPU]) == (1, 0)
    after = limits_after(pod(container("web", gpu=0), container("other")), TWO)
    assert (after["web"][GPU], GPU in after["other"]) == (0, False)


def test_no_gpu_is_added_when_only_an_init_container_states_it() -> None:
    assert GPU not in limits_after(pod(container("a"), init=[container("i", gpu=1)]))["a"]


def test_no_gpu_is_filled_when_the_shape_has_none() -> None:
    shape = Shape("cpu-only", "runc", parse(cpu="2", memory="4Gi", gpu="0"))
    assert limits_after(pod(container()), shape) == {"nvidia": {CPU: "2000m", MEMORY: "4194304Ki"}}


def test_rest_is_shared_equally_when_some_containers_state_it() -> None:
    given_pod = pod(
        container("a", gpu=1, cpu="1500m"), container("b"), container("c"), init=[container("s", always=True)]
    )
    after = limits_after(given_pod)
    assert {name: after[name][CPU] for name in after} == {"a": "1500m", "b": "2166m", "c": "2166m", "s": "2166m"}
    assert {after[name][MEMORY] for name in after} == {"8215405Ki"}


def test_request_counts_as_stated_when_there_is_no_limit() -> None:
    after = limits_after(pod(container("a", gpu=1, requests={"cpu": "3"}), container("b")))
    assert (CPU in after["a"], after["b"][CPU]) == (False, "5000m")


def test_limit_counts_when_there_is_a_smaller_request() -> None:
    after = limits_after(pod(container("a", cpu=6, requests={"cpu": "1"}), container("b")))
    assert after["b"][CPU] == "2000m"


def test_init_container_gets_the_whole_shape_when_there_are_no_sidecars() -> None:
    after = limits_after(pod(container("a", cpu=8), init=[container("i"), container("j", cpu=1)]))
    assert (after["i"], after["j"][CPU], after["j"][MEMORY]) == (
        {CPU: "8000m", MEMORY: "32861620Ki"},
        1,
        "32861620Ki",
    )


def test_init_container_gets_what_sidecars_leave_when_they_state_or_are_filled() -> None:
    sidecars = [container("s", cpu=1, always=True), container("t", always=True)]
    after = limits_after(pod(container("a", cpu=4), init=[container("i"), *sidecars]))
    assert (after["t"][CPU], after["i"][CPU]) == ("3000m", "4000m")


def test_sidecar_leaves_room_when_an_init_container_states_an_amount() -> None:
    inits = [container("s", always=True), container("i", cpu=7), container("t", cpu="500m", always=True)]
    after = limits_after(pod(container("a", cpu=1), container("b"), init=inits))
    assert (after["s"][CPU], after["b"][CPU]) == ("500m", "3250m")


def test_main_container_gets_all_when_an_init_container_states_all() -> None:
    after = limits_after(pod(container("a"), init=[container("i", cpu=8)]))
    assert after["a"][CPU] == "8000m"


def test_nothing_is_filled_when_nothing_is_left() -> None:
    for cpu in ("8", "9", "7999m", "1e30"):
        given_pod = pod(
            container("a", cpu=cpu, memory="1Gi", gpu=1), container("b", memory="1Gi"), container("c", memory="1Gi")
        )
        assert plan_fillings(given_pod, ONE) == ()


def test_init_containers_are_filled_when_only_they_have_something_left() -> None:
    after = limits_after(pod(container("a", cpu=9), container("b"), init=[container("i")]))
    assert (CPU in after["b"], after["i"][CPU]) == (False, "8000m")


def test_memory_is_counted_in_whole_bytes_when_a_fraction_is_stated() -> None:
    after = limits_after(pod(container("a", memory="1500m"), container("b")))
    assert after["b"][MEMORY] == "32861619Ki"


def test_resource_is_not_filled_when_the_pod_states_it_as_a_whole() -> None:
    for side in ("limits", "requests"):
        after = limits_after(pod(container("a"), init=[container("i")], resources={side: {"memory": "2Gi"}}))
        assert after == {"a": {CPU: "8000m", GPU: "1"}, "i": {CPU: "8000m"}}


def test_pod_is_not_changed_when_a_copy_is_filled() -> None:
    given_pod = pod(container(gpu=1), init=[container("i")])
    before = copy.deepcopy(given_pod)
    fill_pod(given_pod, plan_fillings(given_pod, ONE))
    assert given_pod == before


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"spec": None},
        {"spec": []},
        {"spec": {"containers": []}},
        {"spec": {"containers": "all"}},
        {"spec": {"containers": [{"resources": {"limits": {"cpu": "many"}}}]}},
        {"spec": {"containers": [{"resources": {"limits": {"cpu": True}}}]}},
        {"spec": {"containers": [{"resources": {"limits": [1]}}]}},
        {"spec": {"containers": [{"name": "a"}] * (MOST_CONTAINERS + 1)}},
        {"spec": {"containers": [{"name": "a"}], "initContainers": {"a": 1}}},
    ],
)
def test_pod_is_unreadable_when_its_shape_is_wrong(broken: Object) -> None:
    with pytest.raises(UnreadablePod):
        plan_fillings(broken, ONE)


@given(given_pod=generated_pods())
def test_filled_pod_exceeds_its_shape_only_when_the_users_own_figures_do(given_pod: Object) -> None:
    filled = fill_pod(given_pod, plan_fillings(given_pod, ONE))
    before, after = find_demand(given_pod), find_demand(filled)
    for name in (CPU, MEMORY, GPU):
        asked = count_up(name, before[name]) if name in before else 0
        limit = count_down(name, ONE.limits[name])
        got = count_up(name, after[name]) if name in after else 0
        assert got <= max(limit, asked)
    assert plan_fillings(filled, ONE) == (), "filling twice is filling once"
