import time

import pytest

from runyard.launcher.requirement_lines import ALLOWED, InvalidRequirement, read_requirements


@pytest.mark.parametrize(
    "line",
    [
        "numpy",
        "numpy==2.1.0",
        "numpy >=1.20, <3",
        "numpy (>=1.20)",
        "numpy===2.1",
        "scikit-learn~=1.5",
        "ruamel.yaml!=0.1",
        "torch==2.4.1+cpu",
        "numpy==2.*",
        "uvicorn[standard, extra]>=0.30",
        'numpy<3; python_version < "3.13" and sys_platform == "linux"',
        "pkg @ https://example.org/pkg-1.0-py3-none-any.whl",
        "pkg[x]@git+https://example.org/pkg.git@main#subdirectory=a",
        'pkg @ https://example.org/pkg.whl ; python_version > "3.9"',
        "git+https://example.org/pkg.git",
        "https://example.org/pkg-1.0.tar.gz",
    ],
)
def test_requirement_is_kept_when_it_names_a_package(line: str) -> None:
    assert read_requirements([line]) == (line,)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("-r other.txt", "options are not supported"),
        ("-e .", "options are not supported"),
        ("--index-url=https://example.org/simple", "options are not supported"),
        ("--find-links /", "options are not supported"),
        ("./pkg", "paths of this machine are not supported"),
        ("../pkg", "paths of this machine are not supported"),
        ("/etc/passwd", "paths of this machine are not supported"),
        ("~/pkg", "paths of this machine are not supported"),
        ("file:///root/pkg", "paths of this machine are not supported"),
        ("pkg @ file:///root/pkg", "paths of this machine are not supported"),
        ("pkg @ /root/pkg", "not a valid requirement"),
        ("pkg/sub", "not a valid requirement"),
        ("git+ssh://git@example.org/pkg", "a URL of that kind is not supported"),
        ("git+file:///root/pkg", "paths of this machine are not supported"),
        ("pkg @ ftp://example.org/pkg", "a URL of that kind is not supported"),
        ("numpy --no-binary :all:", "not a valid requirement"),
        ("numpy==2.1 --hash=sha256:00", "not a valid requirement"),
        ("numpy pandas", "not a valid requirement"),
        ("$HOME", "not a valid requirement"),
    ],
)
def test_requirement_is_refused_when_pip_would_read_it_as_something_else(line: str, why: str) -> None:
    with pytest.raises(InvalidRequirement) as refused:
        read_requirements(["numpy", line])
    assert str(refused.value) == f'requirement "{line}": {why}; allowed: {ALLOWED}'


def test_comments_and_repetitions_are_dropped_when_a_file_was_pasted() -> None:
    assert read_requirements(["# all of it", "b==1  # why", " a ", "a", ""]) == ("a", "b==1")


def test_requirements_are_refused_when_they_are_too_long_together() -> None:
    with pytest.raises(InvalidRequirement, match="at most 524288 bytes together"):
        read_requirements([f"p{number:04}; {'x' * 2100}" for number in range(256)])


@pytest.mark.parametrize(
    "text", ["a" + " " * 1000 + "!", "a" * 1023 + "!", "a[" + "," * 1000, "a==" + "1," * 500 + "$"]
)
def test_reading_is_linear_when_a_requirement_is_hostile(text: str) -> None:
    began = time.process_time()  # not by the clock: other programs use the processor, too
    with pytest.raises(InvalidRequirement):
        read_requirements([text])
    assert time.process_time() - began < 0.05
