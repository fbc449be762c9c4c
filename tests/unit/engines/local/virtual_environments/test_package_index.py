from pathlib import Path

import pytest

from runyard.engines.local.virtual_environments.package_index import iter_local_paths, read_index_variables


def read(tmp_path: Path, pip: str = "", **environ: str) -> dict[str, str]:
    (tmp_path / "pip.conf").write_text(pip)
    # PIP_CONFIG_FILE wins over the files of the machine on which the test runs.
    variables = read_index_variables({"PIP_CONFIG_FILE": str(tmp_path / "pip.conf")} | environ, prefix=tmp_path)
    return {name: value for name, value in variables.items() if name != "SSL_CERT_FILE"}


def test_variables_of_uv_reach_it_when_the_server_has_them(tmp_path: Path) -> None:
    given = {
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "UV_INDEX_INNER_PASSWORD": "x",
        "HTTPS_PROXY": "http://proxy.example",
        "UV_CACHE_DIR": "/elsewhere",
        "UV_PUBLISH_TOKEN": "secret",
        "UV_PYTHON": "3.9",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "RUNYARD_TOKEN": "secret",
        "UV_OFFLINE": "",
    }
    assert read(tmp_path, **given) == {
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "UV_INDEX_INNER_PASSWORD": "x",
        "HTTPS_PROXY": "http://proxy.example",
    }


def test_settings_of_pip_are_translated_when_uv_has_none(tmp_path: Path) -> None:
    pip = """
[global]
index-url = https://mirror.example/simple
extra_index_url =
    https://a.example/simple
    https://b.example/simple
trusted-host = mirror.example
timeout = 60
[install]
find-links = /wheels /more
no-index = false
"""
    assert read(tmp_path, pip) == {
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "UV_INDEX": "https://a.example/simple https://b.example/simple",
        "UV_INSECURE_HOST": "mirror.example",
        "UV_HTTP_TIMEOUT": "60",
        "UV_FIND_LINKS": "/wheels,/more",
    }


def test_variable_of_pip_wins_when_its_file_says_otherwise(tmp_path: Path) -> None:
    pip = "[global]\nindex-url = https://file.example/simple\n"
    found = read(tmp_path, pip, PIP_INDEX_URL="https://variable.example/simple", PIP_NO_INDEX="1")
    assert found == {"UV_DEFAULT_INDEX": "https://variable.example/simple", "UV_OFFLINE": "1"}


@pytest.mark.parametrize("name", ["UV_INDEX_URL", "UV_DEFAULT_INDEX"])
def test_index_of_uv_wins_when_pip_has_another(tmp_path: Path, name: str) -> None:
    found = read(tmp_path, "[global]\nindex-url = https://pip.example\n", **{name: "https://uv.example"})
    assert found == {name: "https://uv.example"}


@pytest.mark.parametrize("pip", ["no section", "[global\n", "[global]\nindex-url\n", "\x00\xff"])
def test_file_of_pip_is_ignored_when_it_cannot_be_read(tmp_path: Path, pip: str) -> None:
    assert read(tmp_path, pip) == {}


def test_no_file_of_pip_is_read_when_the_null_device_is_set(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://pip.example\n")
    assert read_index_variables({"PIP_CONFIG_FILE": "/dev/null", "HOME": "/"}, prefix=tmp_path) == {}


def test_local_paths_are_listed_when_variables_name_them() -> None:
    variables = {"UV_FIND_LINKS": "/wheels,https://x.example/l,file:///more", "SSL_CERT_FILE": "/etc/cert.pem"}
    assert list(iter_local_paths(variables)) == ["/wheels", "/more", "/etc/cert.pem"]
