"""What the query strings of the port mean, and which are refused by name."""

import pytest

from runyard.node.kubelet_api.queries import MOST_PARAMETERS, parse_log_options, parse_stream_query
from runyard.node.kubelet_api.refusal import Refusal
from runyard.node.providers.provider import LogOptions, StreamKind


def test_log_options_are_read_when_all_are_given() -> None:
    query = [
        ("follow", "true"),
        ("previous", "1"),
        ("timestamps", "false"),
        ("sinceTime", "2026-01-31T12:00:00.5+02:00"),
        ("tailLines", "0"),
        ("limitBytes", "9"),
        ("stream", "All"),
    ]
    assert parse_log_options(query) == LogOptions(
        follow=True,
        previous=True,
        since_time="2026-01-31T12:00:00.5+02:00",
        tail_lines=0,
        limit_bytes=9,
    )


def test_log_is_whole_when_nothing_is_said() -> None:
    assert parse_log_options([]) == LogOptions()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ([("folow", "true")], "unknown parameter `folow`; allowed: follow, previous"),
        ([("follow", "maybe")], "follow is `maybe`; allowed: true, false"),
        ([("tailLines", "-1")], "tailLines is `-1`; allowed: a whole number from 0 on"),
        ([("tailLines", "٣")], "tailLines is `٣`"),
        ([("tailLines", "9" * 30)], "tailLines is `999"),
        ([("sinceSeconds", "0")], "sinceSeconds is `0`; allowed: a whole number from 1 on"),
        ([("limitBytes", "0")], "limitBytes is `0`; allowed: a whole number from 1 on"),
        ([("sinceTime", "2026-01-31")], "sinceTime is `2026-01-31`; allowed: a time such as"),
        ([("sinceTime", "2026-01-31T12:00:00")], "allowed: a time such as"),
        ([("sinceSeconds", "1"), ("sinceTime", "2026-01-31T12:00:00Z")], "exclude each other"),
        ([("stream", "Stdout")], "stream is `Stdout`; allowed: All"),
        ([("follow", "true"), ("follow", "true")], "`follow` is given twice"),
        ([("x" * 1000, "")], f"unknown parameter `{'x' * 99}…`"),
    ],
)
def test_log_option_is_named_when_it_is_refused(query: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_log_options(query)
    assert caught.value.status == 400
    assert words in caught.value.text


def test_stream_query_is_kept_in_order_when_it_is_valid() -> None:
    query = [("command", "sh"), ("command", "-c"), ("command", ""), ("input", "1"), ("tty", "1")]
    assert parse_stream_query("exec", query) == query
    assert parse_stream_query("attach", [("output", "1")]) == [("output", "1")]
    assert parse_stream_query("portforward", [("port", "80"), ("port", "81")]) == [("port", "80"), ("port", "81")]


@pytest.mark.parametrize(
    ("kind", "query", "words"),
    [
        ("exec", [("input", "1")], "command is missing"),
        ("exec", [("command", "id"), ("container", "main")], "unknown parameter `container`"),
        ("exec", [("command", "id"), ("tty", "yes")], "tty is `yes`; allowed: 0, 1, true, false"),
        ("attach", [("command", "id")], "unknown parameter `command`"),
        ("portforward", [("port", "65536")], "port is `65536`; allowed: 1 to 65535"),
        ("portforward", [("port", "0")], "port is `0`"),
        ("exec", [("command", "x")] * (MOST_PARAMETERS + 1), "1001 parameters; allowed: 1000"),
    ],
)
def test_stream_parameter_is_named_when_it_is_refused(
    kind: StreamKind, query: list[tuple[str, str]], words: str
) -> None:
    with pytest.raises(Refusal, match=words) as caught:
        parse_stream_query(kind, query)
    assert caught.value.status == 400
