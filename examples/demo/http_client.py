"""Sends one HTTP request: the few options of curl that the demo uses, for machines without curl."""

import argparse
import base64
import netrc
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

LONGEST_SECONDS = 120.0
"""How long the server may be silent."""
PIECE_BYTES = 64 * 1024


def main(arguments: list[str] | None = None) -> int:
    """Print the body of the response, as it arrives; 0 whatever the status is, as curl."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--data")
    parser.add_argument("--request")
    parser.add_argument("--upload-file", type=Path)
    parser.add_argument("--netrc-file")
    parser.add_argument("--header", action="append", default=[])
    given = parser.parse_args(arguments)
    body = given.upload_file.read_bytes() if given.upload_file else given.data.encode() if given.data else None
    method = given.request or ("PUT" if given.upload_file else "POST" if given.data else "GET")
    headers = dict(header.split(": ", 1) for header in given.header)
    found = given.netrc_file and netrc.netrc(given.netrc_file).authenticators(urlsplit(given.url).hostname or "")
    if found:
        user, _, password = found
        headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
    request = urllib.request.Request(given.url, body, headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        response = opener.open(request, timeout=LONGEST_SECONDS)
    except urllib.error.HTTPError as error:
        response = error
    except OSError as error:
        sys.stderr.write(f"{given.url}: {error}\n")
        return 7
    with response:
        while piece := response.read1(PIECE_BYTES):  # what has arrived; `read` would wait for more
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
