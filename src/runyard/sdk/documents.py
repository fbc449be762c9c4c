"""Entities as the server shows them: read-only views over their JSON. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runyard.sdk.errors import Problem, read_problems
from runyard.sdk.html_tables import render_fields

FINAL = ("COMPLETED", "ERROR", "STOPPED")
"""The states after which a run does nothing more."""
GONE = ("DELETING", "DELETED")
SERVICES = ("serve", "deploy")
SHOWN_TRANSITIONS = 10
"""How many of a run's transitions are told as the reason for its state."""


class Section(dict[str, Any]):
    """A part of a document. Its fields are also attributes: `run.status.state`."""

    def __getattr__(self, name: str) -> Any:
        try:
            value = self[name]
        except KeyError:
            raise AttributeError(f"no `{name}` here; there are: {', '.join(self) or 'no fields'}") from None
        return Section(value) if isinstance(value, dict) else value

    def _repr_html_(self) -> str:
        return render_fields(self)


class EntityView:
    """What every entity has."""

    _type = "entity"

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = dict(document)

    @property
    def id(self) -> str:
        """Its id; of a version of a function, that of the version."""
        return str(self._document["id"])

    @property
    def name(self) -> str:
        """Its name."""
        return str(self._document.get("name") or self.id)

    @property
    def kind(self) -> str:
        """Its kind, such as `python` or `container+job:run`."""
        return str(self._document.get("kind", ""))

    @property
    def project_name(self) -> str:
        """The name of its project."""
        return str(self._document.get("project") or self.name)

    @property
    def key(self) -> str:
        """Its key, `store://…`, by which runs name it as an input."""
        return str(self._document.get("key", ""))

    @property
    def user(self) -> str | None:
        """Who created it."""
        found = self._document.get("user")
        return None if found is None else str(found)

    @property
    def metadata(self) -> Section:
        """Names, labels and times."""
        return Section(self._document.get("metadata") or {})

    @property
    def spec(self) -> Section:
        """What was asked for."""
        return Section(self._document.get("spec") or {})

    @property
    def status(self) -> Section:
        """What the server says of it."""
        return Section(self._document.get("status") or {})

    def to_dict(self) -> dict[str, Any]:
        """Its JSON, as the server sent it."""
        return dict(self._document)

    @property
    def cells(self) -> dict[str, Any]:
        """What a row of a table shows of it."""
        shown = {"name": self.name, "kind": self.kind, "state": self.status.get("state")}
        return {**shown, "created": self.metadata.get("created"), "by": self.user, "id": self.id}

    def __repr__(self) -> str:
        return f"<{self._type} {self.name} of project {self.project_name}>"

    def _repr_html_(self) -> str:
        return render_fields({name: value for name, value in self.cells.items() if value is not None})


class RunView(EntityView):
    """A run as it was when it was read last."""

    _type = "run"

    @property
    def state(self) -> str:
        """Its state, such as RUNNING."""
        return str(self.status.get("state", "CREATED"))

    @property
    def reason(self) -> str | None:
        """Why it is in this state, for programs: `memory.exceeded`."""
        found = self.status.get("reason")
        return None if found is None else str(found)

    @property
    def message(self) -> str | None:
        """Why it is in this state, for people."""
        found = self.status.get("message")
        return None if found is None else str(found)

    @property
    def results(self) -> Section:
        """The values that the function returned."""
        return Section(self.status.get("results") or {})

    @property
    def outputs(self) -> Section:
        """The keys of the files that it stored, by name."""
        return Section(self.status.get("outputs") or {})

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Values that were ignored or are doubtful."""
        return read_problems(self.status.get("warnings"))

    @property
    def service_url(self) -> str | None:
        """The address of a service, with its scheme; None if it has none yet."""
        service = self.status.get("service")
        url = service.get("url") if isinstance(service, Mapping) else None
        return None if not url else url if "://" in str(url) else f"http://{url}"

    @property
    def action(self) -> str:
        """What it does with its function: `job`, `serve` …"""
        return self.kind.partition("+")[2].partition(":")[0]

    @property
    def is_service(self) -> bool:
        """Whether it runs until somebody stops it."""
        return self.action in SERVICES

    @property
    def has_ended(self) -> bool:
        """Whether it does nothing more."""
        return self.state in FINAL or self.state in GONE

    @property
    def has_failed(self) -> bool:
        """Whether it ended otherwise than it should: by an error, or because somebody stopped it."""
        return self.has_ended and self.state != "COMPLETED" and not (self.is_service and self.state == "STOPPED")

    def describe(self) -> str:
        """Its state and why, in one line."""
        why = ": ".join(part for part in (self.reason, self.message) if part)
        return f"{self.state}: {why}" if why else self.state

    @property
    def function_name(self) -> str:
        """The name of its function."""
        return str(self.spec.get("function", "")).rpartition("/")[2].partition(":")[0]

    @property
    def cells(self) -> dict[str, Any]:
        """What a row of a table shows of it."""
        what = {"run": self.id, "function": self.function_name, "action": self.action, "state": self.describe()}
        return {**what, "created": self.metadata.get("created"), "by": self.user}

    def __repr__(self) -> str:
        return f"<run {self.id} of project {self.project_name}: {self.describe()[:200]}>"

    def _repr_html_(self) -> str:
        fields = {"project": self.project_name, **self.cells, "service": self.service_url}
        fields |= {f"result {name}": value for name, value in self.results.items()}
        fields |= {f"output {name}": value for name, value in self.outputs.items()}
        fields |= {f"warning {number}": str(each) for number, each in enumerate(self.warnings, 1)}
        return render_fields({name: value for name, value in fields.items() if value is not None})


def explain_state(run: RunView, events: Sequence[Mapping[str, Any]], *, show_time: Callable[[str], str] = str) -> str:
    """Why a run is in its state, in words, with the newest of its transitions."""
    lines = [f"run {run.id} is {run.describe()}"]
    lines += [f"warning: {problem}" for problem in run.warnings]
    for event in events[-SHOWN_TRANSITIONS:]:
        why = ": ".join(str(event[name]) for name in ("reason", "message") if event.get(name))
        lines.append(f"  {show_time(str(event.get('time')))}  {event.get('status')}  {why}".rstrip())
    return "\n".join(lines)
