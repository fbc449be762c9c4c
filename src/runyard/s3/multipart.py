"""Uploads in parts: an object that is larger than memory, or that grows over several requests.

S3 keeps the parts of an unfinished upload until it is completed or aborted, and lists them: so nothing of it has to be
remembered elsewhere.
"""

import asyncio
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass

from runyard.s3.bucket import Bucket, make_object_headers

LEAST_PART_BYTES = 8 << 20
"""S3 takes no smaller part than 5 MiB, but for the last."""
MOST_PARTS = 10_000
COMPLETION_SECONDS = 300.0
"""Some servers copy all parts before they answer."""
MOST_UPLOADS = 100
"""Unfinished uploads of one key that are aborted in one go; there is one, or two after a lost response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stored part of an upload. The first is number 1."""

    number: int
    size: int
    tag: str


def choose_part_bytes(size: int) -> int:
    """The size of the parts of an object: that many fit into an upload, whatever its size."""
    return max(LEAST_PART_BYTES, -(-size // (MOST_PARTS - 1)))


async def begin_upload(bucket: Bucket, key: str, *, note: bytes = b"", content_type: str = "") -> str:
    """Begin an upload; returns its id."""
    headers = make_object_headers(note, content_type)
    root = bucket.parse(await bucket.send("POST", key, query={"uploads": ""}, headers=headers))
    return root.findtext("{*}UploadId") or ""


async def put_part(bucket: Bucket, key: str, upload: str, *, number: int, content: bytes) -> Part:
    """Store a part, or replace it."""
    query = {"partNumber": str(number), "uploadId": upload}
    answer = await bucket.send("PUT", key, query=query, content=content)
    return Part(number=number, size=len(content), tag=answer.headers.get("etag", ""))


async def list_uploads(bucket: Bucket, key: str) -> list[str]:
    """The unfinished uploads of that key, the oldest first."""
    query = {"uploads": "", "prefix": key, "max-uploads": str(MOST_UPLOADS)}
    root = bucket.parse(await bucket.send("GET", "", query=query))
    found = [
        (one.findtext("{*}Initiated") or "", one.findtext("{*}UploadId") or "")
        for one in root.iterfind("{*}Upload")
        if one.findtext("{*}Key") == key
    ]
    return [upload for _, upload in sorted(found)]


async def list_parts(bucket: Bucket, key: str, upload: str) -> list[Part]:
    """The stored parts, by number; empty if there is no such upload."""
    found: list[Part] = []
    marker = "0"
    while True:
        answer = await bucket.send("GET", key, query={"uploadId": upload, "part-number-marker": marker})
        if answer.status_code == 404:
            return []
        root = bucket.parse(answer)
        found += map(_read_part, root.iterfind("{*}Part"))
        if root.findtext("{*}IsTruncated") != "true" or len(found) >= MOST_PARTS:
            return found
        marker = str(found[-1].number)


async def complete_upload(bucket: Bucket, key: str, upload: str, parts: Sequence[Part]) -> None:
    """Make the parts an object. Raises if one of them was replaced meanwhile.

    Idempotent as long as the object exists: an upload that is gone was completed by a request whose response was lost.
    """
    root = ET.Element("CompleteMultipartUpload")
    for part in parts:
        element = ET.SubElement(root, "Part")
        ET.SubElement(element, "PartNumber").text = str(part.number)
        ET.SubElement(element, "ETag").text = part.tag
    answer = await bucket.send(
        "POST", key, query={"uploadId": upload}, content=ET.tostring(root), seconds=COMPLETION_SECONDS
    )
    if answer.status_code == 404:
        found = await bucket.find_info(key)
        if found is None or found.size != sum(part.size for part in parts):
            raise bucket.fail("POST", "the upload is gone", status=404, code="NoSuchUpload")
        return
    # S3 begins to answer 200 before it knows the outcome.
    outcome = bucket.parse(answer)
    if outcome.tag.rpartition("}")[2] == "Error":
        code = outcome.findtext("{*}Code") or ""
        raise bucket.fail("POST", f"completing the upload failed: {code}", code=code)


async def abort_uploads(bucket: Bucket, key: str) -> None:
    """Delete the parts of all unfinished uploads of that key. Idempotent."""
    uploads = await list_uploads(bucket, key)
    await asyncio.gather(*(abort_upload(bucket, key, upload) for upload in uploads))


async def abort_upload(bucket: Bucket, key: str, upload: str) -> None:
    """Delete the parts of an upload. Idempotent."""
    await bucket.send("DELETE", key, query={"uploadId": upload})


def _read_part(found: ET.Element) -> Part:
    return Part(
        number=int(found.findtext("{*}PartNumber") or 0),
        size=int(found.findtext("{*}Size") or 0),
        tag=found.findtext("{*}ETag") or "",
    )
