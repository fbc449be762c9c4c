"""The launcher in a pod, and what admission accepts of it."""

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from runyard.domain.admission import check_objects
from runyard.manifests.environment import TOKEN_VARIABLES, get_platform_envs
from runyard.manifests.identity import PlatformInputs, RunIdentity
from runyard.manifests.names import registry_secret_name
from runyard.manifests.render import render_anchor, render_dependents, render_preview, render_run
from runyard.pods.security import check_template_security
from runyard.spec.environment import SecretUse
from runyard.spec.launcher import Launcher
from runyard.spec.policy import Policy
from runyard.spec.problems import Problem, Refused
from tests.unit.manifests.object_views import Object, get_workload
from tests.unit.manifests.samples import IDENTITY, OWNER, make_spec, make_volume

TOKEN = "a-token-of-the-run-alone"
LAUNCHER = Launcher(
    image="ghcr.io/acme/launcher:1",
    install=("/launcher", "install", "/runyard"),
    start=("/runyard/launcher", "start"),
)
PLATFORM = PlatformInputs(
    endpoint="https://runyard.example", has_token=True, launcher=LAUNCHER, has_registry_secret=True
)
HERE = replace(IDENTITY, namespace="runs", platform=PLATFORM)
PYTHON = make_spec(kind="python", image="python:3.11")


def render(spec: Any = PYTHON, identity: RunIdentity = HERE) -> list[Object]:
    token = TOKEN if identity.platform.has_token else None
    return render_run(spec, identity, secret_values={"TOKEN": "v"}, token=token)


def get_pod(objects: list[Object]) -> Object:
    pod: Object = get_workload(objects)["spec"]["template"]["spec"]
    return pod


def judge(objects: list[Object], platform: PlatformInputs = PLATFORM, **more: Any) -> list[Problem]:
    return check_objects(
        objects,
        policy=Policy(),
        project="vision",
        platform_envs=get_platform_envs(replace(HERE, platform=platform)),
        platform_secrets=frozenset(TOKEN_VARIABLES if platform.has_token else ()),
        launcher=platform.launcher,
        has_registry_secret=platform.has_registry_secret,
        run_uid="u1",
        **more,
    )


def test_launcher_is_installed_and_started_when_the_run_has_no_command() -> None:
    pod = get_pod(render())
    assert pod["initContainers"] == [
        {
            "name": "runyard-launcher",
            "image": "ghcr.io/acme/launcher:1",
            "imagePullPolicy": "IfNotPresent",
            "command": ["/launcher", "install", "/runyard"],
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
            "securityContext": {
                "privileged": False,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [{"name": "runyard-launcher", "mountPath": "/runyard"}],
        }
    ]
    assert pod["volumes"] == [{"name": "runyard-launcher", "emptyDir": {"sizeLimit": "64Mi"}}]
    (container,) = pod["containers"]
    assert container["command"] == ["/runyard/launcher", "start"]
    assert container["volumeMounts"] == [{"name": "runyard-launcher", "mountPath": "/runyard", "readOnly": True}]
    template = get_workload(render())["spec"]["template"]
    assert check_template_security(template, level="restricted", version="latest") == ()


def test_launcher_starts_the_command_when_it_installs_its_requirements() -> None:
    spec = make_spec(
        kind="python", image="python:3.11", command=["python", "main.py"], args=["-v"], requirements=["rich"]
    )
    assert "initContainers" not in get_pod(render(spec))  # this launcher does not: the engine does
    launcher = replace(LAUNCHER, installs_requirements=True)
    platform = replace(PLATFORM, launcher=launcher)
    objects = render(spec, replace(HERE, platform=platform))
    pod = get_pod(objects)
    (container,) = pod["containers"]
    assert [each["name"] for each in pod["initContainers"]] == ["runyard-launcher"]
    assert container["command"] == ["/runyard/launcher", "start"]
    assert container["args"] == ["--", "python", "main.py", "-v"]
    assert judge(objects, platform) == []


@pytest.mark.parametrize(
    "spec",
    [make_spec(), make_spec(kind="python", image="python:3.11", command=["python", "main.py"])],
    ids=["container", "command"],
)
def test_launcher_is_left_out_when_the_run_starts_by_itself(spec: Any) -> None:
    assert "runyard-launcher" not in str(render(spec))


def test_run_is_refused_when_it_mounts_over_the_launcher() -> None:
    volumes = [make_volume("empty_dir", mount_path="/runyard")]
    with pytest.raises(Refused, match="the launcher is mounted there"):
        render(replace(PYTHON, volumes=tuple(volumes)))
    with pytest.raises(Refused, match="needs a launcher"):
        render(PYTHON, replace(IDENTITY))


def test_variables_name_server_project_and_run_when_there_is_an_endpoint() -> None:
    env = {entry["name"]: entry.get("value") for entry in get_pod(render())["containers"][0]["env"]}
    assert env == {
        "PROJECT_NAME": "vision",
        "RUN_ID": "r1",
        "DHCORE_ENDPOINT": "https://runyard.example",
        "DHCORE_NAMESPACE": "runs",
        "RUNYARD_ENDPOINT": "https://runyard.example",
        "RUNYARD_PROJECT": "vision",
        "RUNYARD_RUN_ID": "r1",
        "RUNYARD_RUN_UID": "u1",
        "DHCORE_ACCESS_TOKEN": None,
        "RUNYARD_TOKEN": None,
    }


@pytest.mark.parametrize("secrets", [(), (SecretUse(name="TOKEN"),)], ids=["alone", "beside a secret"])
def test_token_is_in_the_secret_only_when_the_run_has_one(secrets: tuple[SecretUse, ...]) -> None:
    secret, *others = render(replace(PYTHON, secrets=secrets))
    encoded = base64.b64encode(TOKEN.encode()).decode()
    assert secret["kind"] == "Secret"
    assert secret["data"] == {
        "DHCORE_ACCESS_TOKEN": encoded,
        "RUNYARD_TOKEN": encoded,
        **({"TOKEN": "dg=="} if secrets else {}),
    }
    assert TOKEN not in str(others)
    (container,) = get_pod([secret, *others])["containers"]
    tokens = [entry for entry in container["env"] if entry["name"] in TOKEN_VARIABLES]
    assert [entry["valueFrom"]["secretKeyRef"] for entry in tokens] == [
        {"name": secret["metadata"]["name"], "key": name} for name in TOKEN_VARIABLES
    ]


def test_registry_credentials_are_used_when_the_project_has_them() -> None:
    names = [entry["name"] for entry in get_pod(render())["imagePullSecrets"]]
    assert names == [registry_secret_name("vision")]
    spec = replace(PYTHON, image_pull_secrets=("team",))
    both = [entry["name"] for entry in get_pod(render(spec))["imagePullSecrets"]]
    assert both == ["team", registry_secret_name("vision")]


def test_pods_pass_when_they_have_all_that_the_platform_gives() -> None:
    assert judge(render()) == []
    served = make_spec(kind="python", image="python:3.11", action="serve")
    assert judge(render(served)) == []
    anchor = render_anchor(PYTHON, HERE)
    assert judge([anchor, *render_preview(PYTHON, HERE)], is_anchor=True) == []
    owned = render_dependents(PYTHON, HERE, owner=OWNER, secret_values={}, token="t")
    assert judge([anchor, *owned], is_anchor=True) == []


@pytest.mark.parametrize(
    "platform",
    [
        replace(PLATFORM, launcher=None),
        replace(PLATFORM, launcher=replace(LAUNCHER, image="ghcr.io/acme/launcher:2")),
        replace(PLATFORM, launcher=replace(LAUNCHER, install=("/launcher",))),
        replace(PLATFORM, launcher=replace(LAUNCHER, start=("/runyard/launcher",))),
        replace(PLATFORM, has_registry_secret=False),
        replace(PLATFORM, has_token=False),
        replace(PLATFORM, endpoint=None),
        replace(PLATFORM, endpoint="https://other.example"),
    ],
)
def test_pods_are_refused_when_the_platform_gives_something_else(platform: PlatformInputs) -> None:
    assert judge(render(), platform)


def change_init(**fields: Any) -> Callable[[Object], None]:
    return lambda pod: pod["initContainers"][0].update(fields)


CHANGES: dict[str, Callable[[Object], Any]] = {
    "another image": change_init(image="evil.example/x:1"),
    "another command": change_init(command=["sh"]),
    "arguments": change_init(args=["x"]),
    "another name": change_init(name="init"),
    "no name": lambda pod: pod["initContainers"][0].pop("name"),
    "variables": change_init(env=[{"name": "A", "value": "1"}]),
    "more memory": change_init(resources={"limits": {"memory": "64Gi"}}),
    "capabilities": change_init(securityContext={"privileged": False}),
    "another mount": change_init(volumeMounts=[{"name": "runyard-launcher", "mountPath": "/etc"}]),
    "a restarting one": change_init(restartPolicy="Always"),
    "two of them": lambda pod: pod["initContainers"].append(dict(pod["initContainers"][0])),
    "none of them": lambda pod: pod.pop("initContainers"),
    "an empty list": lambda pod: pod.update(initContainers=[]),
    "an ephemeral container": lambda pod: pod.update(ephemeralContainers=[]),
    "a large volume": lambda pod: pod["volumes"][0]["emptyDir"].update(sizeLimit="64Gi"),
    "a volume in memory": lambda pod: pod["volumes"][0]["emptyDir"].update(medium="Memory"),
    "another volume": lambda pod: pod["volumes"].__setitem__(
        0, {"name": "runyard-launcher", "image": {"reference": "evil.example/x:1", "pullPolicy": "IfNotPresent"}}
    ),
    "no volume": lambda pod: pod.pop("volumes"),
    "writable": lambda pod: pod["containers"][0]["volumeMounts"][0].pop("readOnly"),
    "elsewhere": lambda pod: pod["containers"][0]["volumeMounts"][0].update(mountPath="/elsewhere"),
    "a part of it": lambda pod: pod["containers"][0]["volumeMounts"][0].update(subPath="x"),
    "not mounted": lambda pod: pod["containers"][0].pop("volumeMounts"),
    "not started": lambda pod: pod["containers"][0].update(command=["python"]),
    "another pull secret": lambda pod: pod["imagePullSecrets"].append({"name": "runyard-registry-speech-x"}),
    "a plain token": lambda pod: pod["containers"][0]["env"].append({"name": "RUNYARD_TOKEN", "value": "x"}),
    "the token as text": lambda pod: pod["containers"][0]["env"].append({"name": "A", "value": f"Bearer {TOKEN}"}),
    "another's token": lambda pod: pod["containers"][0]["env"][-1]["valueFrom"]["secretKeyRef"].update(name="x"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_pod_is_refused_when_the_launcher_has_another_shape(name: str) -> None:
    objects = render()
    CHANGES[name](get_pod(objects))

    problems = judge(objects)

    assert problems
    assert not any(problem.code == "admission.failed" for problem in problems)


def test_launchers_volume_is_refused_when_there_is_no_launcher() -> None:
    objects = render(make_spec())
    pod = get_pod(objects)
    pod["volumes"] = [{"name": "runyard-launcher", "emptyDir": {"sizeLimit": "64Mi"}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "runyard-launcher", "mountPath": "/runyard", "readOnly": True}]

    assert {problem.code for problem in judge(objects)} == {"admission.launcher"}
