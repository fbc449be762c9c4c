import pytest

from runyard.spec.image_patterns import denies_image, matches_image
from runyard.spec.images import ImageError, find_image, is_latest, parse_image
from runyard.spec.volumes import read_image
from tests.unit.spec.refusals import find_problem

DIGEST = "sha256:" + "0" * 64
OTHER = "sha256:" + "f" * 64


@pytest.mark.parametrize(
    "image",
    [
        "python",
        "python:latest",
        "library/python",
        "docker.io/python",
        "docker.io/library/python:latest",
        "index.docker.io/library/python",
        "registry-1.docker.io/library/python",
        "registry.hub.docker.com/library/python",
        "DOCKER.IO/library/python",
        "docker.io:443/library/python",
        "docker.io:0443/library/python",
    ],
)
def test_all_spellings_are_one_image_when_they_mean_the_same(image: str) -> None:
    assert str(parse_image(image)) == "docker.io/library/python:latest"


@pytest.mark.parametrize(
    ("image", "name", "full"),
    [
        ("evil/x", "docker.io/evil/x", "docker.io/evil/x:latest"),
        ("ghcr.io/a/b:1", "ghcr.io/a/b", "ghcr.io/a/b:1"),
        ("localhost/a", "localhost/a", "localhost/a:latest"),
        ("localhost:80/a", "localhost/a", "localhost/a:latest"),
        ("localhost:443/a", "localhost:443/a", "localhost:443/a:latest"),
        ("127.0.0.1:80/a", "127.0.0.1/a", "127.0.0.1/a:latest"),
        ("registry:5000/a", "registry:5000/a", "registry:5000/a:latest"),
        ("registry:05000/a", "registry:5000/a", "registry:5000/a:latest"),
        ("registry.example.org:443/a:1", "registry.example.org/a", "registry.example.org/a:1"),
        ("registry.example.org:80/a:1", "registry.example.org:80/a", "registry.example.org:80/a:1"),
        ("registry:5000/a/b:2", "registry:5000/a/b", "registry:5000/a/b:2"),
        (f"python@{DIGEST}", "docker.io/library/python", f"docker.io/library/python@{DIGEST}"),
        (f"python:3@{DIGEST}", "docker.io/library/python", f"docker.io/library/python:3@{DIGEST}"),
        ("Registry.Example.Org/a:1", "registry.example.org/a", "registry.example.org/a:1"),
        ("EVILREG/x", "evilreg/x", "evilreg/x:latest"),
        ("[0:0:0:0:0:0:0:A]:5000/x", "[::a]:5000/x", "[::a]:5000/x:latest"),
        ("[::1]/x", "[::1]/x", "[::1]/x:latest"),
        ("[::ffff:a00:5]:5000/x:1", "10.0.0.5:5000/x", "10.0.0.5:5000/x:1"),
        ("[0:0:0:0:0:FFFF:0A00:0005]/x:1", "10.0.0.5/x", "10.0.0.5/x:1"),
        ("[::ffff:7f00:1]:80/x:1", "127.0.0.1/x", "127.0.0.1/x:1"),
        ("[::a00:5]/x:1", "[::a00:5]/x", "[::a00:5]/x:1"),
    ],
)
def test_an_image_is_written_in_full_when_it_was_short(image: str, name: str, full: str) -> None:
    reference = parse_image(image)

    assert (reference.name, str(reference)) == (name, full)


@pytest.mark.parametrize(
    ("image", "cause"),
    [
        ("ghcr.io./acme/train:2", "`ghcr.io.` is not a host name"),
        ("evil..io/x", "`evil..io` is not a host name"),
        ("evil_x.io/y", "`evil_x.io` is not a host name"),
        ("127.1/x", "`127.1` is not a host name: an IPv4 address has four decimal numbers"),
        ("127.000.0.1:5000/x", "`127.000.0.1` is not a host name: an IPv4 address"),
        ("0x7f.0.0.0x1/x", "`0x7f.0.0.0x1` is not a host name: an IPv4 address"),
        ("2130706433:80/x", "`2130706433` is not a host name: an IPv4 address"),
        ("evil.io:99999/x", "`99999` is not a port"),
        ("evil.io:0/x", "`0` is not a port"),
        ("evil.io:/x", "`` is not a port"),
        ("busybox:1.36/x", "`1.36` is not a port"),
        ("ghcr.io/Acme/train:2", "the path of an image name must be lower case"),
        ("BusyBox", "the path of an image name must be lower case"),
        ("ghcr.io/acme/../evil:1", "a path consists of"),
        ("ghcr.io//x", "a path consists of"),
        ("a b", "a path consists of"),
        ("büsybox", "a path consists of"),
        ("x:", "a tag consists of"),
        ("x:a:b", "a tag consists of"),
        ("x@", "a digest is"),
        (f"x@{DIGEST.upper()}", "a digest is"),
        (f"x@{DIGEST}0", "a digest is"),
        ("x@md5:" + "0" * 32, "a digest is"),
        ("0" * 64, "64 hexadecimal digits are an image id"),
        ("a/" + "x" * 256, "the path has 258 characters"),
    ],
)
def test_an_image_is_refused_when_no_runtime_could_read_it(image: str, cause: str) -> None:
    with pytest.raises(ImageError) as caught:
        parse_image(image)

    problem = find_problem(read_image, image)
    assert str(caught.value).startswith(cause)
    assert (problem.code, problem.message) == ("image.invalid", str(caught.value))
    assert problem.allowed == "[host[:port]/]path[:tag][@digest]"
    assert find_image(image) is None


def test_the_lower_case_name_is_proposed_when_only_its_case_is_wrong() -> None:
    assert find_problem(read_image, "ghcr.io/Acme/train:2").suggestion == "ghcr.io/acme/train:2"
    assert find_problem(read_image, "ghcr.io/Acme/../train:2").suggestion is None


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        ("*", "anything/at:all"),
        ("*", f"evil.io:8443/x@{DIGEST}"),
        ("python", "python:3.11"),
        ("python", f"python@{DIGEST}"),
        ("python", f"python:3.11@{DIGEST}"),
        ("python", "docker.io/library/python:3.11"),
        ("python:*", "library/python:3.11"),
        ("python:3.8", "index.docker.io/library/python:3.8"),
        ("evil/*", "docker.io/evil/x:1"),
        ("docker.io/*", "evil/x"),
        ("docker.io/*", "python:3"),
        ("docker.io/py*", "docker.io/pytorch/pytorch:2"),
        ("docker.io/py*", "python:3"),
        ("team-*/model", "team-a/model:1"),
        ("*.example.org/*", "eu.example.org/a:1"),
        ("reg-*.example.org/*", "reg-1.example.org/a:1"),
        ("Registry.Example.Org/*", "registry.example.org/a"),
        ("docker.io/evil/x", f"evil/x@{DIGEST}"),
        ("registry.example.org/*", "registry.example.org/team/model:1"),
        ("registry.example.org/*", "REGISTRY.example.org/team/model:1"),
        ("registry.example.org/*", "registry.example.org:443/x"),
        ("registry.example.org/*", "registry.example.org:0443/x"),
        ("registry.example.org:443/*", "registry.example.org/x"),
        ("registry.example.org./*", "registry.example.org/x"),
        ("*/team/*", "registry.example.org/team/model:1"),
        ("*/team/*", "registry.example.org:5000/team/model:1"),
        ("*:latest", "python"),
        ("registry:5000/*", "registry:5000/a:1"),
        ("registry:05000/*", "registry:5000/a:1"),
        ("registry:*/*", "registry:5000/a:1"),
        ("10.0.0.5:5000/*", "[::ffff:a00:5]:5000/x:1"),
        ("10.0.0.*/*", "[::FFFF:A00:5]/x:1"),
        ("[::ffff:a00:5]:5000/*", "10.0.0.5:5000/x:1"),
        ("[::ffff:10.0.0.5]:5000/*", "[::ffff:a00:5]:5000/x:1"),
        ("localhost/*", "localhost:80/a:1"),
        ("EVILREG/*", "EVILREG/x"),
        ("evilreg:443/*", "EVILREG/x"),
        ("ghcr.io/a/b:1", "ghcr.io/a/b:1"),
        (f"python@{DIGEST}", f"docker.io/library/python@{DIGEST}"),
        (f"python@{DIGEST}", f"python:3.11@{DIGEST}"),
        (f"python:3.11@{DIGEST}", f"python:3.11@{DIGEST}"),
        ("python:3.11@*", f"python:3.11@{OTHER}"),
        ("*@sha256:*", f"ghcr.io/a/b@{OTHER}"),
    ],
)
def test_a_pattern_means_an_image_when_it_is_spelt_otherwise(pattern: str, image: str) -> None:
    assert matches_image(pattern, image)
    assert denies_image(pattern, image)


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        ("python:*", "pythonic:3"),
        ("python:*", "evil/python:3"),
        ("registry.example.org/*", "registry.example.org.evil.com/x"),
        ("registry.example.org/*", "evil.com/registry.example.org/x"),
        ("python:3.11", "python:3.1"),
        ("ghcr.io/a/b:1", "ghcr.io/a/b:10"),
        ("evil/*", "ghcr.io/evil/x"),
        ("team-*/model", "ghcr.io/team-a/model"),
        ("python", "python3"),
        ("p.thon", "python"),
        ("docker.io/*", "docker.io.evil.com/x"),
        ("docker.io/*", "EVILREG/x"),
        ("docker.io/*", "Library/python"),
        ("registry:5000/*", "registry:50000/a"),
        ("registry:5000/*", "registry/a"),
        ("localhost:443/*", "localhost/a"),
        ("10.0.0.5:5000/*", "[::ffff:a00:6]:5000/x:1"),
        ("10.0.0.5:5000/*", "[::a00:5]:5000/x:1"),
        (f"python@{DIGEST}", f"python@{OTHER}"),
        (f"python@{DIGEST}", "python:3.11"),
        ("python@*", "python:3.11"),
        ("python:3.11@*", "python:3.11"),
        ("python:3.11@*", f"python:3.12@{DIGEST}"),
        ("python:3.11@*", f"python@{DIGEST}"),
        ("*@sha256:*", "ghcr.io/a/b:1"),
    ],
)
def test_a_pattern_does_not_mean_an_image_when_it_is_another(pattern: str, image: str) -> None:
    assert not matches_image(pattern, image)
    assert not denies_image(pattern, image)


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        ("python:3.11", f"python:3.11@{DIGEST}"),
        ("python:*", f"python:3.11@{DIGEST}"),
        (f"python:3.11@{DIGEST}", f"python@{DIGEST}"),
        (f"python:3.11@{DIGEST}", f"python:9@{DIGEST}"),
        ("registry.example.org/*", "registry.example.org:5000/x"),
        ("registry.example.org/*", "registry.example.org:80/x"),
        ("localhost/*", "localhost:443/x"),
        ("ghcr.io*", "ghcr.io/acme/train:2"),
        ("GHCR.io*", "ghcr.io:8443/acme/train:2"),
        ("*.docker.io/*", "registry-1.docker.io/evil/x"),
        ("evilreg/*", "EVILREG/x"),
        ("python:*", "python:5000/evil/x"),
        ("team-*/model", "team-x.evil.com/model"),
        ("library/*", "LIBRARY/python"),
        ("evil.io/*", "evil.io./x"),
    ],
)
def test_a_pattern_only_denies_an_image_when_it_may_be_another(pattern: str, image: str) -> None:
    """What a digest, another port or another spelling leaves open is denied, and not allowed."""
    assert not matches_image(pattern, image)
    assert denies_image(pattern, image)


@pytest.mark.parametrize("image", ["python", "python:latest", "registry:5000/a", "ghcr.io/a/b:latest"])
def test_an_image_is_latest_when_nothing_says_which(image: str) -> None:
    assert is_latest(image)


@pytest.mark.parametrize("image", ["python:3.11", f"python@{DIGEST}", f"python:latest@{DIGEST}", "registry:5000/a:1"])
def test_an_image_is_not_latest_when_a_tag_or_digest_says_which(image: str) -> None:
    assert not is_latest(image)


def test_a_star_stays_in_the_registry_when_the_pattern_names_one() -> None:
    assert matches_image("*.example.org/*", "a.example.org/x:1")
    assert not matches_image("*.example.org/*", "evil.io/x.example.org/y:1")
