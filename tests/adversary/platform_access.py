"""What the platform adds to every anchor: its endpoint, and the run's token, which only the run's Secret holds."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.adversary.cases import Case

ENDPOINT, TOKEN = "https://runyard.example", "the-run's-own-token"
TOKEN_NAMES = ("DHCORE_ACCESS_TOKEN", "RUNYARD_TOKEN")


def make_platform_variables(case: Case, namespace: str) -> dict[str, str]:
    """The variables that the platform sets, with their values."""
    variables = {"PROJECT_NAME": case.project, "RUN_ID": case.run_id}
    if case.is_anchor:
        variables |= {
            "DHCORE_ENDPOINT": ENDPOINT,
            "DHCORE_NAMESPACE": namespace,
            "RUNYARD_ENDPOINT": ENDPOINT,
            "RUNYARD_PROJECT": case.project,
            "RUNYARD_RUN_ID": case.run_id,
            "RUNYARD_RUN_UID": case.run_id,
        }
    return variables


def take_tokens_out(objects: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A copy without the token, where it is as it should be: a key of the Secret, and a variable that refers to it.

    Raises ValueError if the token stands anywhere else.
    """
    copied: list[dict[str, Any]] = json.loads(json.dumps(objects))
    encoded = base64.b64encode(TOKEN.encode()).decode()
    tokens: set[tuple[str, str]] = set()
    for secret in [item for item in copied if item["kind"] == "Secret"]:
        for name in TOKEN_NAMES:
            if secret["data"].get(name) == encoded:
                del secret["data"][name]
                tokens.add((secret["metadata"]["name"], name))
        if not secret["data"]:
            copied.remove(secret)
    for workload in [item for item in copied if item["kind"] in ("Job", "Deployment")]:
        for container in workload["spec"]["template"]["spec"]["containers"]:
            container["env"] = [entry for entry in container.get("env", []) if not _is_token(entry, tokens)]
    if TOKEN in json.dumps(copied) or encoded in json.dumps(copied):
        raise ValueError("the run's token is where it should not be")
    return copied


def _is_token(entry: Mapping[str, Any], tokens: set[tuple[str, str]]) -> bool:
    reference = entry.get("valueFrom", {}).get("secretKeyRef", {})
    is_whole = entry.keys() == {"name", "valueFrom"} and entry.get("name") == reference.get("key")
    return is_whole and (reference.get("name"), reference.get("key")) in tokens
