"""Amazon's published examples: of Signature Version 4 for S3, and of its general test suite."""

import hashlib
from datetime import UTC, datetime

import pytest

from runyard.s3.aws_signature import Signer, encode_path, encode_query

S3_AT = datetime(2013, 5, 24, tzinfo=UTC)
S3 = Signer(
    access_key="AKIAIOSFODNN7EXAMPLE", secret_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", region="us-east-1"
)
BUCKET = {"Host": "examplebucket.s3.amazonaws.com", "x-amz-date": "20130524T000000Z"}
EMPTY_HASH = hashlib.sha256(b"").hexdigest()
PUT_HASH = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"

SUITE_AT = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
SUITE = Signer(
    access_key="AKIDEXAMPLE",
    secret_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    region="us-east-1",
    service="service",
)
SUITE_HEADERS = {"Host": "example.amazonaws.com", "X-Amz-Date": "20150830T123600Z"}


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "content_hash", "signature"),
    [
        pytest.param(
            "GET",
            "/test.txt",
            {},
            {"Range": "bytes=0-9"},
            EMPTY_HASH,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            id="get-object",
        ),
        pytest.param(
            "PUT",
            "/test%24file.text",
            {},
            {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            PUT_HASH,
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            id="put-object",
        ),
        pytest.param(
            "GET",
            "/",
            {"lifecycle": ""},
            {},
            EMPTY_HASH,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            id="get-lifecycle",
        ),
        pytest.param(
            "GET",
            "/",
            {"max-keys": "2", "prefix": "J"},
            {},
            EMPTY_HASH,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            id="list-objects",
        ),
    ],
)
def test_signature_is_the_published_one_when_s3_is_asked(
    method: str, path: str, query: dict[str, str], headers: dict[str, str], content_hash: str, signature: str
) -> None:
    signed = S3.sign(
        method,
        path,
        query=query,
        headers={**BUCKET, **headers, "x-amz-content-sha256": content_hash},
        content_hash=content_hash,
        at=S3_AT,
    )
    assert signed.endswith(f"Signature={signature}")
    assert signed.startswith(
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders="
    )


@pytest.mark.parametrize(
    ("method", "query", "signature"),
    [
        pytest.param("GET", {}, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31", id="get-vanilla"),
        pytest.param("POST", {}, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b", id="post-vanilla"),
        pytest.param(
            "GET",
            {"Param2": "value2", "Param1": "value1"},
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            id="get-vanilla-query-order-key-case",
        ),
    ],
)
def test_signature_is_the_published_one_when_the_general_suite_is_played(
    method: str, query: dict[str, str], signature: str
) -> None:
    signed = SUITE.sign(method, "/", query=query, headers=SUITE_HEADERS, content_hash=EMPTY_HASH, at=SUITE_AT)
    assert signed.endswith(f"SignedHeaders=host;x-amz-date, Signature={signature}")


def test_everything_but_unreserved_characters_is_escaped_when_encoded() -> None:
    assert encode_path("/a b/é+~-_.") == "/a%20b/%C3%A9%2B~-_."
    assert encode_query({"b": "/ =", "a": "é"}) == "a=%C3%A9&b=%2F%20%3D"


def test_secret_is_not_shown_when_the_signer_is_printed() -> None:
    assert "EXAMPLEKEY" not in repr(S3)
