"""Triggers: a schedule and a lifecycle, made, listed, read and deleted."""

from typing import Any

from tests.e2e.sdk.scripts.driving import (
    LINE,
    PROJECT,
    attempt,
    dh,
    narrow,
    new_container,
    observe,
    open_project,
    plain,
)

TEMPLATE = {"args": ["-c", "true"]}

project = open_project()
box = new_container(project, "box")


def trigger(kind: str, name: str, **fields: Any) -> Any:
    """A new trigger that starts the box; 0.13 takes the fields of the run beside its own."""
    if LINE <= (0, 13):
        return box.trigger("job", trigger_kind=kind, trigger_name=name, **TEMPLATE, **fields)
    return box.trigger("job", kind=kind, name=name, template=TEMPLATE, **fields)


nightly = trigger("scheduler", "nightly", schedule="0 0 3 * * ?")
observe("scheduled", entity=plain(nightly), function=f"container://{PROJECT}/box:{box.id}")
if LINE >= (0, 14):  # 0.13.4 has the kind but does not register it
    after = trigger("lifecycle", "after", key=f"store://{PROJECT}/run/*", states=["COMPLETED"])
    observe("after", entity=plain(after), function=f"container://{PROJECT}/box:{box.id}")
observe("got", entity=plain(dh.get_trigger("nightly", project=PROJECT)))
observe("listed", names=sorted(one.name for one in dh.list_triggers(PROJECT)))
observe("by kind", names=[one.name for one in dh.list_triggers(PROJECT, **narrow(kind="lifecycle"))])
observe("of the function", **attempt(box.list_triggers))
dh.delete_trigger("nightly", project=PROJECT, entity_id=nightly.id)
observe("deleted", names=[one.name for one in dh.list_triggers(PROJECT)])
