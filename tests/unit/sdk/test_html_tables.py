from typing import Any

import runyard as ry
from runyard.sdk.documents import EntityView, RunView
from runyard.sdk.explanations import read_explanation
from runyard.sdk.html_tables import MOST_ROWS, Listing, render_text
from runyard.sdk.run_progress import MOST_LINES, LiveRun, find_display

HOSTILE = "<script>alert('x')</script>\"&\x1b[31m\x1b[2J\x1b]0;t\x07\u202e"


def make_run(**status: Any) -> RunView:
    spec = {"function": f"python://demo/{HOSTILE}:1"}
    return RunView({"id": "r1", "kind": "python+job:run", "project": HOSTILE, "spec": spec, "status": status})


def is_harmless(shown: str) -> bool:
    return all(each.isprintable() or each == "\n" for each in shown) and not {"<script", "'x'", '"&'} & {
        word for word in ("<script", "'x'", '"&') if word in shown
    }


def test_text_is_escaped_and_bounded_when_it_is_hostile() -> None:
    assert render_text("a<b>\x1b[1mc\x1b[0m\x1b[2J\u202ed\te\nf") == "a&lt;b&gt;c\\x1b[2J\\u202ed\te f"
    assert render_text("x" * 500) == "x" * 299 + "…"
    assert (render_text(None), render_text({"a": [1]}), render_text("\ud800")) == (
        "",
        "{&quot;a&quot;: [1]}",
        "\\ud800",
    )


def test_everything_of_the_server_is_escaped_when_a_notebook_shows_it() -> None:
    run = make_run(
        state="ERROR",
        reason=HOSTILE,
        message=HOSTILE,
        results={HOSTILE: HOSTILE},
        outputs={HOSTILE: HOSTILE},
        warnings=[{"path": HOSTILE, "message": HOSTILE}],
        service={"url": f"javascript://{HOSTILE}"},
    )
    entity = EntityView({"id": HOSTILE, "name": HOSTILE, "kind": HOSTILE, "user": HOSTILE})
    owned = {"path": HOSTILE, "value": HOSTILE, "source": HOSTILE, "rule": HOSTILE, "replaced": [{"value": HOSTILE}]}
    problem = {"message": HOSTILE, "allowed": HOSTILE, "suggestion": HOSTILE}
    explanation = read_explanation({"provenance": [owned], "warnings": [problem], "refusals": [problem]})
    shown: list[Any] = [run, entity, explanation, LiveRun(run, [HOSTILE]), ry.Section({HOSTILE: HOSTILE})]
    shown += [Listing([run, entity]), Listing([HOSTILE]), Listing([ry.Section({HOSTILE: HOSTILE})])]
    for each in shown:
        html = each._repr_html_()
        assert "&lt;script&gt;" in html, each
        assert is_harmless(html), html
        assert "href" not in html


def test_list_is_a_table_of_what_is_known_when_its_entries_differ() -> None:
    entries = Listing([ry.Section({"path": "a", "size": 1}), ry.Section({"path": "b", "hash": "x"})])
    assert entries._repr_html_() == (
        "<table><tr><th>path</th><th>size</th><th>hash</th></tr>"
        "<tr><td>a</td><td>1</td><td></td></tr><tr><td>b</td><td></td><td>x</td></tr></table>"
    )
    long = Listing(map(str, range(MOST_ROWS + 7)))
    assert long == [str(number) for number in range(MOST_ROWS + 7)]
    assert long._repr_html_().count("<tr>") == MOST_ROWS + 1
    assert long._repr_html_().endswith("<p>and 7 more</p>")


def test_live_view_has_the_end_of_the_log_when_it_is_long() -> None:
    html = LiveRun(make_run(state="RUNNING"), [f"line {number} {'x' * 10_000}" for number in range(1000)])._repr_html_()
    lines = html.partition("<pre>")[2].partition("</pre>")[0].splitlines()
    assert [line.split()[1] for line in lines] == [str(number) for number in range(1000 - MOST_LINES, 1000)]
    assert len(html) < 100_000


def test_there_is_no_display_when_no_notebook_is_there() -> None:
    assert find_display() is None
