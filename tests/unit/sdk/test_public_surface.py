"""The public names of `import runyard as ry`, pinned: a change of this list is a change for users."""

import re
import subprocess
import sys
from pathlib import Path

import runyard as ry

NAMES = """
CapturedFunction function
AuditEntry ConfigMap CreatedToken KeptVolume Rehearsal Revision Share StoredPolicy StoredProfile Token
AsyncSession ExecResult PortForward Session SessionFailed
AsyncRunDraft AsyncStoredEntity Check Rendering RunDraft StoredEntity
AlreadyExists ApiError ArgumentError AsyncClient AsyncFunction AsyncProject AsyncRun CertificateError Client
ConfigurationError Conflict Env Explanation Forbidden Function FunctionArguments LogLine NodeSelector NotFound
NotSignedIn NotSupported Problem Project Refused Resources Run RunArguments RunFailed RunyardError Section
ServerFailed ServerUnreachable ServicePort Sides Source Toleration TooManyRequests TransferFailed TransferProgress
UnexpectedResponse Volume VolumeSpec WaitTimeout __version__ delete_project get_client get_or_create_project
get_project get_run list_projects set_client
"""
PUBLIC = NAMES.split()
METHODS = {
    "StoredEntity": """
cells delete download id key kind list_files metadata name project_name spec state status to_dict upload user
    """,
    "Client": """
describe_profiles put_profile delete_profile list_profile_revisions get_profile_revision
get_policy put_policy delete_policy list_policy_revisions get_policy_revision rehearse
iter_audit list_tokens
close create_token credentials delete_project describe_server diagnose draft_run endpoint get_or_create_project
get_project get_profile list_profiles list_projects new_project request revoke_token whoami
    """,
    "Project": """
save_function
describe_secrets
list_shares share unshare
new_config_map get_config_map list_config_maps delete_config_map
new_volume get_volume list_volumes delete_volume
cells list_artifacts list_dataitems list_models new_artifact new_dataitem new_model
get_artifact get_dataitem get_model list_stored log_artifact log_dataitem log_model
create_function delete delete_secret ensure_function get_function get_run get_secret id key kind
list_functions list_runs list_secrets metadata name new_function new_secret project_name refresh spec status
to_dict user
    """,
    "Function": """
address_request cells delete draft_run explain explain_request id key kind make_request metadata name project_name
reference render run spec status submit to_dict user
    """,
    "RunDraft": """
explain render submit
    """,
    "Run": """
action cells delete describe effective events explain function_name has_ended has_failed id
is_service iter_log key kind logs
exec open_attach open_exec port_forward usage
message metadata metrics name outputs project_name reason refresh results resume service_url spec state status
stop to_dict user wait warnings why
    """,
    "Session": "close_input exit_code resize send",
}


def test_names_are_the_pinned_ones_when_the_package_is_listed() -> None:
    assert sorted(dir(ry)) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(ry, name) is not None


def test_methods_are_the_pinned_ones_when_a_class_is_listed() -> None:
    for name, methods in METHODS.items():
        for kind in (getattr(ry, name), getattr(ry, f"Async{name}")):
            found = {word for word in dir(kind) if not word.startswith("_")}
            assert {"close" if word == "aclose" else word for word in found} == set(methods.split()), kind


def test_type_stub_has_the_same_names_when_it_is_read() -> None:
    stub = (Path(ry.__file__).parent / "__init__.pyi").read_text()
    found = dict(re.findall(r"from runyard\.sdk\.([\w.]+) import (\w+) as \2$", stub, re.MULTILINE))
    named = [name for _, name in re.findall(r"from runyard\.sdk\.([\w.]+) import (\w+) as \2$", stub, re.MULTILINE)]
    assert found
    assert sorted([*named, "__version__"]) == sorted(PUBLIC)


def test_nothing_large_is_loaded_when_the_package_is_imported() -> None:
    code = "import sys, runyard; print(sorted({'httpx2', 'pydantic', 'runyard.sdk', 'asyncio'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_unknown_name_is_refused_when_it_is_asked_for() -> None:
    assert not hasattr(ry, "get_or_make_project")
