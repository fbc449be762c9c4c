"""Why an image cannot be pulled."""

import pytest

from runyard.pods.image_pull import PullKind, read_pull_failure

PREFIX = 'failed to pull and unpack image "r.example/a:1": failed to resolve reference "r.example/a:1": '


@pytest.mark.parametrize(
    ("message", "kind", "words"),
    [
        (
            f"rpc error: code = NotFound desc = {PREFIX}r.example/a:1: not found",
            PullKind.MISSING,
            "r.example/a:1: not found",
        ),
        (
            f'Back-off pulling image "r.example/a:1": ErrImagePull: {PREFIX}unexpected status: 401 Unauthorized',
            PullKind.REFUSED,
            "unexpected status: 401 Unauthorized",
        ),
        (
            f"{PREFIX}pull access denied, repository does not exist or may require authorization",
            PullKind.REFUSED,
            "pull access denied, repository does not exist or may require authorization",
        ),
        (
            f'{PREFIX}failed to do request: Head "https://r.example/v2/": dial tcp: lookup r.example: no such host',
            PullKind.UNREACHABLE,
            'failed to do request: Head "https://r.example/v2/": dial tcp: lookup r.example: no such host',
        ),
        (
            f"{PREFIX}unexpected status from HEAD request: 503 Service Unavailable",
            PullKind.UNREACHABLE,
            "unexpected status from HEAD request: 503 Service Unavailable",
        ),
        (
            f"{PREFIX}failed to do request: tls: failed to verify certificate: x509: unknown authority",
            PullKind.UNREACHABLE,
            "failed to do request: tls: failed to verify certificate: x509: unknown authority",
        ),
        ('Back-off pulling image "r.example/a:1"', PullKind.MISSING, ""),
        (f"{PREFIX}no match for platform in manifest", PullKind.MISSING, "no match for platform in manifest"),
    ],
)
def test_registry_is_quoted_when_an_image_cannot_be_pulled(message: str, kind: PullKind, words: str) -> None:
    found = read_pull_failure(message)
    assert (found.kind, found.words) == (kind, words)
