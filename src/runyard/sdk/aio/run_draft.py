"""A run that is not submitted yet: what it would get, and what it would become. Nothing is stored before `submit`."""

from contextlib import suppress
from uuid import uuid4

from runyard.sdk.aio.run import AsyncRun
from runyard.sdk.aio.tasks import draft_task, ensure_task, find_task
from runyard.sdk.aio.transport import AsyncTransport
from runyard.sdk.calls import Call, Json, post
from runyard.sdk.errors import AlreadyExists, NotFound
from runyard.sdk.explanations import Explanation, Rendering, read_explanation, read_rendering


class AsyncRunDraft:
    """A run that is not submitted yet.

    Its function may be one that is not stored yet, in a project that does not exist yet: the server is shown their
    definitions, and `submit` stores what is missing.
    """

    def __init__(self, transport: AsyncTransport, function: Json, *, action: str, spec: Json, is_stored: bool) -> None:
        self._transport = transport
        self._function = function
        self._is_stored = is_stored
        self._spec = spec
        self._kind = f"{function['kind']}+{action}"
        self._reference = f"{function['kind']}://{function['project']}/{function['name']}:{function['id']}"
        self.project_name = str(function["project"])
        self.makes_project = False
        """Whether the project did not exist when the server was asked last: `submit` creates it."""

    async def explain(self, *, strict: bool = False) -> Explanation:
        """What the run would get, who decides each value, and why it would be refused.

        Raises `Refused` if it cannot be read.
        """
        return read_explanation(await self._ask("explain", id=None, strict=strict))

    async def render(
        self,
        *,
        id: str | None = None,  # noqa: A002 - the API's name
        strict: bool = False,
    ) -> Rendering:
        """The Kubernetes objects that the run would become. Raises `Refused` if it would be refused.

        Values of secrets are empty. The id is a part of the names.
        """
        return read_rendering(await self._ask("render", id=id, strict=strict))

    async def submit(
        self,
        *,
        id: str | None = None,  # noqa: A002 - the API's name
        strict: bool = False,
    ) -> AsyncRun:
        """Store what is missing, and submit the run under an id that the client chose: a repeated submit makes one."""
        if not self._is_stored:
            await self._store_function()
        task = await ensure_task(self._transport, self.project_name, self._kind, self._reference)
        call = self._post("-", self.project_name, "runs", body=self._make_run(task, id or uuid4().hex), strict=strict)
        return AsyncRun(await self._transport.fetch(call), self._transport)

    async def _ask(
        self,
        step: str,
        *,
        id: str | None,  # noqa: A002 - the API's name
        strict: bool,
    ) -> Json:
        task = await self._find_task()
        drafts = {} if self._is_stored else {"function": self._function}
        if task is None:
            drafts["task"] = draft_task(self._kind, self._reference)
            task = str(drafts["task"]["id"])
        place = ("new-projects", self.project_name) if self.makes_project else ("-", self.project_name)
        body = {**self._make_run(task, id), "drafts": drafts}
        answer: Json = await self._transport.fetch(self._post(*place, "runs", step, body=body, strict=strict))
        return answer

    async def _find_task(self) -> str | None:
        """The stored task, whose fields count; None if it is to be created, as may be the project."""
        self.makes_project = False
        try:
            return await find_task(self._transport, self.project_name, self._kind, self._reference)
        except NotFound:
            if self._is_stored:
                raise
            self.makes_project = True
            return None

    async def _store_function(self) -> None:
        """Store the function, whose id says its content, and the project."""
        call = post("-", self.project_name, "functions", body=self._function, is_safe_to_repeat=True)
        with suppress(AlreadyExists):
            try:
                await self._transport.fetch(call)
            except NotFound:
                project = {"kind": "project", "name": self.project_name, "metadata": {}}
                with suppress(AlreadyExists):  # somebody else was faster, or a repeated request had arrived
                    await self._transport.fetch(post("projects", body=project))
                await self._transport.fetch(call)
        self._is_stored = True

    def _make_run(self, task: str, run_id: str | None) -> Json:
        return {
            "kind": f"{self._kind}:run",
            "project": self.project_name,
            **({} if run_id is None else {"id": run_id}),
            "spec": {"task": f"{self._kind}://{self.project_name}/{task}", "function": self._reference, **self._spec},
        }

    @staticmethod
    def _post(*path: str, body: Json, strict: bool) -> Call:
        return post(*path, body=body, strict="true" if strict else None, is_safe_to_repeat=True)
