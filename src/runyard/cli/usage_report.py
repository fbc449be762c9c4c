"""Implements `runyard top`: what the containers of runs use now, as the engine measures it."""

from collections.abc import Iterator, Mapping
from typing import Any

from runyard.cli.client_session import Session, open_session
from runyard.cli.listings import TABLE, Listing
from runyard.cli.output import print_note
from runyard.cli.tables import print_listing
from runyard.sdk.documents import Section
from runyard.sdk.errors import ApiError, NotFound
from runyard.sdk.sync.run import Run
from runyard.spec.figures import format_bytes
from runyard.spec.problem_codes import Code

Flags = Mapping[str, Any]
OPTIONAL = ("container", "pod")
NOT_MEASURED = "not measured"
MOST_RUNS = 100


def print_usage(flags: Flags, given: str | None, *, listing: Listing) -> None:
    """Print the usage of a run, or of the runs of the project that run now."""
    with open_session(flags) as session:
        found = [(run, usage) for run, usages in _read_usage(session, given) for usage in usages]
    if not found and listing.output == TABLE:
        print_note(f"no container of project {session.project_name} runs")
        return
    rows = [_to_row(run, usage) for run, usage in found]
    data = [{"run": run.id, **usage} for run, usage in found]
    print_listing(listing, rows, data=data, optional=OPTIONAL)


def _read_usage(session: Session, given: str | None) -> Iterator[tuple[Run, list[Section]]]:
    if given is not None:
        run = session.get_run(given)
        yield run, run.usage()
        return
    for run in session.get_project().list_runs(state="RUNNING", limit=MOST_RUNS):
        try:
            yield run, run.usage()
        except NotFound:
            continue
        except ApiError as error:
            if error.code != Code.RUN_NOT_RUNNING:  # it has ended meanwhile
                raise


def _to_row(run: Run, usage: Section) -> Mapping[str, str]:
    cores, memory = usage.get("cpu_cores"), usage.get("memory_bytes")
    return {
        "run": run.id,
        "pod": str(usage.get("pod", "")),
        "container": str(usage.get("container", "")),
        "cpu": NOT_MEASURED if cores is None else f"{float(cores):.3f}",
        "memory": NOT_MEASURED if memory is None else format_bytes(int(memory)),
    }
