"""Who a client is, what it needs, and how long a decision is believed."""

import calendar
import time

import pytest

from runyard.node.kubelet_api.authentication import User, find_bearer_token, user_from_certificate, user_from_review
from runyard.node.kubelet_api.authorization import Access, access_of_request, render_review
from runyard.node.kubelet_api.expiring_cache import ExpiringCache

CERTIFICATE = {
    "subject": ((("organizationName", "a"),), (("organizationName", "b"),), (("commonName", "jo"),)),
    "notAfter": "Jan  5 09:34:43 2026 GMT",
}
ENDS_AT = calendar.timegm(time.strptime("2026-01-05 09:34:43", "%Y-%m-%d %H:%M:%S"))


def test_user_and_groups_are_those_of_the_subject_when_the_certificate_is_valid() -> None:
    assert user_from_certificate(CERTIFICATE, now=ENDS_AT - 1) == User("jo", groups=("a", "b", "system:authenticated"))


def test_nobody_is_named_when_the_certificate_has_ended_or_has_no_name() -> None:
    assert user_from_certificate(CERTIFICATE, now=ENDS_AT) is None
    assert user_from_certificate(CERTIFICATE | {"subject": ((("organizationName", "a"),),)}, now=0) is None
    assert user_from_certificate(CERTIFICATE | {"subject": ((("commonName", ""),),)}, now=0) is None


def test_user_is_the_reviews_when_it_is_authenticated() -> None:
    user = {"username": "sa", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}}
    assert user_from_review({"status": {"authenticated": True, "user": user}}) == User(
        "sa", "1", ("g",), (("k", ("v",)),)
    )


@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {"authenticated": False, "user": {"username": "sa"}},
        {"authenticated": "true", "user": {"username": "sa"}},
        {"authenticated": True},
        {"authenticated": True, "user": {"username": ""}},
    ],
)
def test_nobody_is_named_when_the_review_does_not_say_so(status: object) -> None:
    assert user_from_review({"status": status}) is None


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Basic abc", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("Bearer \udcff", None),
        (None, None),
    ],
)
def test_token_is_found_when_the_header_has_one(header: str | None, token: str | None) -> None:
    assert find_bearer_token(header) == token


@pytest.mark.parametrize(
    ("method", "path", "access"),
    [
        ("GET", "/pods", Access("get", ("pods", "proxy"))),
        ("GET", "/runningpods/", Access("get", ("pods", "proxy"))),
        ("GET", "/healthz", Access("get", ("healthz", "proxy"))),
        ("GET", "/configz", Access("get", ("configz", "proxy"))),
        ("GET", "/stats/summary", Access("get", ("stats",))),
        ("GET", "/metrics/resource", Access("get", ("metrics",))),
        ("GET", "/metrics", Access("get", ("metrics",))),
        ("GET", "/logs/", Access("get", ("log",))),
        ("GET", "/containerLogs/{namespace}/{pod}/{container}", Access("get", ("proxy",))),
        ("POST", "/exec/{namespace}/{pod}/{container}", Access("create", ("proxy",))),
        ("GET", "/exec/{namespace}/{pod}/{container}", Access("create", ("proxy",))),
        ("GET", "/portForward/{namespace}/{pod}", Access("create", ("proxy",))),
        ("GET", "/attach/{namespace}/{pod}/{container}", Access("create", ("proxy",))),
        ("GET", "", Access("get", ("proxy",))),
        ("GET", "/podsx", Access("get", ("proxy",))),
        ("PATCH", "/pods", Access("patch", ("pods", "proxy"))),
    ],
)
def test_right_is_that_of_a_kubelet_when_a_path_is_asked_for(method: str, path: str, access: Access) -> None:
    assert access_of_request(method, path) == access


def test_review_names_user_node_and_subresource_when_rendered() -> None:
    user = User("sa", "1", ("g",), (("k", ("v",)),))
    assert render_review(user, verb="get", node="k8s.gpu", subresource="pods")["spec"] == {
        "user": "sa",
        "uid": "1",
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "resourceAttributes": {
            "verb": "get",
            "version": "v1",
            "resource": "nodes",
            "subresource": "pods",
            "name": "k8s.gpu",
        },
    }


def test_entry_is_gone_when_its_time_is_over() -> None:
    now = 0.0
    cache: ExpiringCache[str, bool] = ExpiringCache(most=2, clock=lambda: now)
    cache.put("a", False, seconds=10)
    now = 9.9
    assert cache.find("a") is False
    now = 10.0
    assert cache.find("a") is None
    assert len(cache) == 0


def test_least_recently_used_goes_when_the_cache_is_full() -> None:
    cache: ExpiringCache[int, int] = ExpiringCache(most=2)
    cache.put(1, 1, seconds=10)
    cache.put(2, 2, seconds=10)
    cache.find(1)
    cache.put(3, 3, seconds=10)
    assert [cache.find(key) for key in (1, 2, 3)] == [1, None, 3]
