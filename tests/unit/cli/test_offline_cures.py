from pathlib import Path

import pytest

from tests.unit.cli.conftest import Call

VOLUMES = {
    "shared": "{volume_type: shared_volume, name: data, mount_path: /d}",
    "config map": "{volume_type: config_map, name: conf, mount_path: /c, spec: {name: settings}}",
    "claim": "{volume_type: persistent_volume_claim, name: old, mount_path: /p, spec: {claim_name: old-claim}}",
}
REFUSED = {
    "secrets: [A]": (
        "<stdin>:2:11: error: secrets.A: secret `A` is not declared",
        "    try: --secret A",
    ),
    f"volumes: [{VOLUMES['shared']}]": (
        "<stdin>:2:11: error: volumes.data: volume `data` is not declared",
        "    try: --volume data",
    ),
    f"volumes: [{VOLUMES['config map']}]": (
        "<stdin>:2:43: error: volumes.conf.name: config map `settings` is not declared",
        "    try: --config-map settings=PATH, or the files in `data`",
    ),
    f"volumes: [{VOLUMES['claim']}]": (
        "<stdin>:2:96: error: volumes.old.claim_name: existing claims may not be mounted unless the policy names them",
        "    given: old-claim",
        "    allowed: claims made for the run, or a --policy with `volumes.claim_name: {allowed: [old-claim]}`",
    ),
    "profile: 1xa100": (
        "<stdin>:2:10: error: profile: there is no profile `1xa100`",
        "    allowed: no profiles are loaded",
        "    try: --profiles DIR, with the directory of its file",
    ),
}


@pytest.mark.parametrize(("field", "lines"), REFUSED.items())
def test_cure_is_an_option_when_something_is_unknown_offline(call: Call, field: str, lines: tuple[str, ...]) -> None:
    called = call("explain", "-f", "-", stdin=f"image: busybox:1\n{field}\n")
    assert called.code == 1
    assert called.out.split("\n\n")[2].splitlines() == [*lines, "refused: 1 problem"]


@pytest.mark.parametrize("field", [field for field in REFUSED if "claim" not in field and "profile" not in field])
def test_run_is_accepted_when_the_proposed_option_is_added(
    call: Call, field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "PATH").write_text("a: 1\n")
    monkeypatch.chdir(tmp_path)
    (cure,) = [line.split("try: ")[1].split(", or ")[0] for line in REFUSED[field] if "try: " in line]
    called = call("render", "-f", "-", *cure.split(), stdin=f"image: busybox:1\n{field}\n")
    assert called.code == 0, called.err


def test_claim_is_asked_for_when_the_policy_allows_it(call: Call, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("volumes.claim_name: {allowed: [old-claim]}\n")
    run = f"image: busybox:1\nvolumes: [{VOLUMES['claim']}]\n"
    called = call("explain", "-f", "-", "--policy", policy, stdin=run)
    assert "claim `old-claim` is not declared\n    try: --claim old-claim\nrefused: 1 problem\n" in called.out
    assert call("explain", "-f", "-", "--policy", policy, "--claim", "old-claim", stdin=run).code == 0


def test_function_is_named_when_its_image_is_known_only_to_a_server(call: Call) -> None:
    run = (
        "kind: container+job:run\nproject: demo\nspec: {task: container+job://demo/t, function: container://demo/f:1}\n"
    )
    called = call("explain", "-f", "-", stdin=run)
    assert (
        "allowed: `image` in the file, or --image IMAGE; the function's image is known only to a server" in called.out
    )


def test_nothing_is_said_of_a_project_when_there_is_no_server(call: Call) -> None:
    run = f"image: busybox:1\nsecrets: [A]\nvolumes: [{', '.join(VOLUMES.values())}]\n"
    for declared in ((), ("--config-map", f"other={__file__}", "--secret", "B", "--volume", "kept")):
        shown = call("explain", "-f", "-", *declared, stdin=run).out
        assert "the project has no" not in shown
        assert "POST" not in shown
