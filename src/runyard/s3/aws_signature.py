"""AWS Signature Version 4 of requests, tested with the published examples.

Not boto3: it is blocking, 25 MB with botocore, and takes half a second to import; this needs four hashes.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """Credentials for one service in one region."""

    access_key: str
    secret_key: str = field(repr=False)
    region: str
    service: str = "s3"

    def sign(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        content_hash: str,
        at: datetime,
    ) -> str:
        """The `Authorization` header of a request. `path` must be encoded; all given headers are signed."""
        stamp = format_time(at)
        scope = f"{stamp[:8]}/{self.region}/{self.service}/aws4_request"
        lowered = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
        names = ";".join(sorted(lowered))
        canonical = "\n".join(
            [
                method,
                path,
                encode_query(query),
                *(f"{name}:{lowered[name]}" for name in sorted(lowered)),
                "",
                names,
                content_hash,
            ]
        )
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        signature = hmac.new(
            self._derive_key(stamp[:8]), f"{_ALGORITHM}\n{stamp}\n{scope}\n{digest}".encode(), hashlib.sha256
        ).hexdigest()
        return f"{_ALGORITHM} Credential={self.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"

    def _derive_key(self, day: str) -> bytes:
        key = f"AWS4{self.secret_key}".encode()
        for part in (day, self.region, self.service, "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key


def format_time(at: datetime) -> str:
    """The format of `x-amz-date`."""
    return at.strftime("%Y%m%dT%H%M%SZ")


def encode_path(path: str) -> str:
    """Percent-encode a path; slashes stay."""
    return quote(path, safe="/-_.~")


def encode_query(query: Mapping[str, str]) -> str:
    """Percent-encode a query, sorted; only unreserved characters stay."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)
