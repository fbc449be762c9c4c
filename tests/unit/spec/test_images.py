import pytest

from runyard.spec.images import is_latest, list_spellings, matches_image

DIGEST = "sha256:" + "0" * 64


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
        "DOCKER.IO/library/python",
    ],
)
def test_all_spellings_are_one_image_when_they_mean_the_same(image: str) -> None:
    assert list_spellings(image) == ("docker.io/library/python", "docker.io/library/python:latest")


@pytest.mark.parametrize(
    ("image", "name", "full"),
    [
        ("evil/x", "docker.io/evil/x", "docker.io/evil/x:latest"),
        ("ghcr.io/a/b:1", "ghcr.io/a/b", "ghcr.io/a/b:1"),
        ("localhost/a", "localhost/a", "localhost/a:latest"),
        ("registry:5000/a", "registry:5000/a", "registry:5000/a:latest"),
        ("registry.example.org:443/a:1", "registry.example.org/a", "registry.example.org/a:1"),
        ("registry:5000/a/b:2", "registry:5000/a/b", "registry:5000/a/b:2"),
        (f"python@{DIGEST}", "docker.io/library/python", f"docker.io/library/python@{DIGEST}"),
        (f"python:3@{DIGEST}", "docker.io/library/python", f"docker.io/library/python:3@{DIGEST}"),
        ("Registry.Example.Org/a:1", "registry.example.org/a", "registry.example.org/a:1"),
    ],
)
def test_an_image_is_written_in_full_when_it_was_short(image: str, name: str, full: str) -> None:
    assert list_spellings(image) == (name, full)


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        ("*", "anything/at:all"),
        ("python", "python:3.11"),
        ("python", f"python@{DIGEST}"),
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
        ("*/team/*", "registry.example.org/team/model:1"),
        ("*:latest", "python"),
        ("registry:5000/*", "registry:5000/a:1"),
        ("ghcr.io/a/b:1", "ghcr.io/a/b:1"),
        (f"python@{DIGEST}", f"docker.io/library/python@{DIGEST}"),
    ],
)
def test_a_pattern_means_an_image_when_it_is_spelt_otherwise(pattern: str, image: str) -> None:
    assert matches_image(pattern, image)


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        ("python:*", "python:5000/evil/x"),
        ("python:*", "pythonic:3"),
        ("python:*", "evil/python:3"),
        ("registry.example.org/*", "registry.example.org.evil.com/x"),
        ("registry.example.org/*", "evil.com/registry.example.org/x"),
        ("registry.example.org/*", "registry.example.org:5000/x"),
        ("python:3.11", "python:3.1"),
        ("python:3.11", f"python:3.11@{DIGEST}"),
        ("ghcr.io/a/b:1", "ghcr.io/a/b:10"),
        ("evil/*", "ghcr.io/evil/x"),
        ("team-*/model", "team-x.evil.com/model"),
        ("team-*/model", "ghcr.io/team-a/model"),
        ("python", "python3"),
        ("p.thon", "python"),
        ("docker.io/*", "docker.io.evil.com/x"),
    ],
)
def test_a_pattern_does_not_mean_an_image_when_it_is_another(pattern: str, image: str) -> None:
    assert not matches_image(pattern, image)


@pytest.mark.parametrize("image", ["python", "python:latest", "registry:5000/a", "ghcr.io/a/b:latest"])
def test_an_image_is_latest_when_nothing_says_which(image: str) -> None:
    assert is_latest(image)


@pytest.mark.parametrize("image", ["python:3.11", f"python@{DIGEST}", f"python:latest@{DIGEST}", "registry:5000/a:1"])
def test_an_image_is_not_latest_when_a_tag_or_digest_says_which(image: str) -> None:
    assert not is_latest(image)


def test_a_star_stays_in_the_registry_when_the_pattern_names_one() -> None:
    assert matches_image("*.example.org/*", "a.example.org/x:1")
    assert not matches_image("*.example.org/*", "evil.io/x.example.org/y:1")
