# Generated from ../aio/function.py by `make sdk`: do not edit.
"""A version of a function: run it, or ask what a run of it would get."""

from collections.abc import Mapping
from typing import Any, Unpack
from uuid import uuid4

from runyard.sdk.arguments import RUN_ARGUMENTS, Action, RunArguments, check_arguments, to_spec
from runyard.sdk.calls import Json, delete, post
from runyard.sdk.documents import EntityView
from runyard.sdk.explanations import Explanation, Rendering, read_explanation
from runyard.sdk.sync.run import Run
from runyard.sdk.sync.run_draft import RunDraft
from runyard.sdk.sync.tasks import ensure_task
from runyard.sdk.sync.transport import Transport


class Function(EntityView):
    """A version of a function. Its spec never changes: a new version is a new function of the same name."""

    _type = "function"

    def __init__(self, document: Json, transport: Transport) -> None:
        super().__init__(document)
        self._transport = transport
        self._tasks: dict[str, str] = {}

    @property
    def reference(self) -> str:
        """How tasks and runs name it: `kind://project/name:id`."""
        return f"{self.kind}://{self.project_name}/{self.name}:{self.id}"

    def run(
        self,
        action: Action = "job",
        *,
        id: str | None = None,  # noqa: A002 - the API's name
        name: str | None = None,
        strict: bool = False,
        wait: bool = False,
        **arguments: Unpack[RunArguments],
    ) -> Run:
        """Submit a run. Returns at once; with `wait`, when it has ended.

        It is submitted with an id that the client chose, so that a repeated submit makes one run. Raises `Refused`
        with every problem; with `strict`, values that would be ignored are problems too.
        """
        document = self.make_request(action, id=id or uuid4().hex, name=name, arguments=arguments)
        run = self.submit(document, strict=strict)
        return run.wait() if wait else run

    def explain(
        self, action: Action = "job", *, strict: bool = False, **arguments: Unpack[RunArguments]
    ) -> Explanation:
        """What a run with these arguments would get, who decides each value, and why it would be refused.

        Starts and stores nothing. Raises `Refused` if the arguments cannot be read.
        """
        return self._draft_run(action, arguments).explain(strict=strict)

    def render(self, action: Action = "job", *, strict: bool = False, **arguments: Unpack[RunArguments]) -> Rendering:
        """The Kubernetes objects that a run with these arguments would become, without values of secrets.

        Starts and stores nothing. Raises `Refused` if the run would be refused.
        """
        return self._draft_run(action, arguments).render(strict=strict)

    def draft_run(self, action: str, spec: Json) -> RunDraft:
        """A run that is not submitted yet, with a spec as it is, which the server checks."""
        return RunDraft(self._transport, self._document, action=action, spec=spec, is_stored=True)

    def make_request(
        self,
        action: str,
        *,
        arguments: Mapping[str, Any],
        id: str | None = None,  # noqa: A002 - the API's name
        name: str | None = None,
    ) -> Json:
        """The document of a run. Raises `ArgumentError` for unknown arguments. Creates the task if need be."""
        check_arguments(arguments, known=RUN_ARGUMENTS, of="run")
        return self.address_request(action, to_spec(arguments), id=id, name=name)

    def address_request(
        self,
        action: str,
        spec: Json,
        *,
        id: str | None = None,  # noqa: A002 - the API's name
        name: str | None = None,
    ) -> Json:
        """The document of a run with a spec as it is, which the server checks."""
        kind = f"{self.kind}+{action}"
        if kind not in self._tasks:
            self._tasks[kind] = ensure_task(self._transport, self.project_name, kind, self.reference)
        identity = {"id": id, "name": name}
        return {
            "kind": f"{kind}:run",
            "project": self.project_name,
            **{field: value for field, value in identity.items() if value is not None},
            "spec": {"task": f"{kind}://{self.project_name}/{self._tasks[kind]}", "function": self.reference, **spec},
        }

    def submit(self, document: Json, *, strict: bool = False) -> Run:
        """Submit the document of a run, which must have an id."""
        flag = "true" if strict else None
        path = ("-", self.project_name, "runs")
        call = post(*path, body=document, strict=flag, is_safe_to_repeat="id" in document)
        return Run(self._transport.fetch(call), self._transport)

    def explain_request(self, document: Json, *, strict: bool = False) -> Explanation:
        """Explain the document of a run."""
        flag = "true" if strict else None
        path = ("-", self.project_name, "runs", "explain")
        call = post(*path, body=document, strict=flag, is_safe_to_repeat=True)
        return read_explanation(self._transport.fetch(call))

    def delete(self, *, cascade: bool = True) -> None:
        """Delete this version; with `cascade`, also its tasks and runs."""
        flag = "true" if cascade else "false"
        self._transport.fetch(delete("-", self.project_name, "functions", self.id, cascade=flag))

    def _draft_run(self, action: str, arguments: Mapping[str, Any]) -> RunDraft:
        check_arguments(arguments, known=RUN_ARGUMENTS, of="run")
        return self.draft_run(action, to_spec(arguments))
