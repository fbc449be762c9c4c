"""Implements `runyard audit`."""

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

from runyard.cli.client_session import connect, report_errors
from runyard.cli.humane_times import read_time_option
from runyard.cli.listings import TABLE, WIDE, Listing
from runyard.cli.output import print_note
from runyard.cli.tables import print_listing
from runyard.sdk.records import AuditEntry
from runyard.spec.problems import shorten

MOST_PAGE = 1000
OPTIONAL = ("details", "address", "sequence", "result", "type")
Flags = Mapping[str, Any]


def print_audit(
    flags: Flags, *, listing: Listing, since: str | None, until: str | None, limit: int, **filters: str | None
) -> None:
    """List the newest entries that match."""
    span = {"since": read_time_option("--since", since), "until": read_time_option("--until", until)}
    with report_errors(), connect(flags) as client:
        entries = client.iter_audit(**span, **filters, page_size=min(limit + 1, MOST_PAGE))
        found = list(islice(entries, limit + 1))
    shown = found[:limit]
    rows = list(map(_to_row, shown))
    print_listing(listing, rows, data=[dict(entry) for entry in shown], optional=OPTIONAL)
    if len(found) > limit and listing.output in (TABLE, WIDE):
        print_note(f"there are more than {limit}: choose with --since, --until and the other options, or use -n")


def _to_row(entry: AuditEntry) -> Mapping[str, str]:
    names = ("time", "actor", "action", "project", "type", "id", "result", "address", "sequence")
    cells = {name: str(entry.get(name, "")) for name in names}
    details = entry.get("details")
    return {**cells, "details": shorten(json.dumps(details, ensure_ascii=False)) if details else ""}
