"""Sessions of the engine in memory: it understands the commands that the tests of sessions execute."""

import json
from collections.abc import Sequence

from runyard.app.engine import Anchor, ChannelId, EngineRefusal, Session, Usage
from runyard.domain.reasons import Reason
from tests.engines.interactive import NOON, Container, InteractiveEngine, echo

CAT = ("cat",)
SLEEP = ("sleep", "1000")
FAIL = ("sh", "-c", "exit 3")
SAY_BOTH = ("sh", "-c", "echo out; echo err >&2")


class SessionEngine(InteractiveEngine):
    """`Interactive` and `Metered` for the runs in memory."""

    def __init__(self, place: str = "a") -> None:
        super().__init__(place)
        self.program = self.execute

    async def execute(self, container: Container) -> None:
        """Be the command."""
        command = container.session.command
        if command == CAT:
            await echo(container)
        elif command == SAY_BOTH:
            await container.write(b"out\n")
            await container.write(b"err\n", channel=ChannelId.STDERR)
            await container.exit()
        elif command == FAIL:
            await container.exit(3)
        elif container.port is not None:
            await self.refuse_connection(container)
        # The others go on, or are attached to what the run itself writes.

    async def refuse_connection(self, container: Container) -> None:
        """Nothing listens at any port."""
        status = {"status": "Failure", "message": f"nothing listens at port {container.port}"}
        await container.write(json.dumps(status).encode(), channel=ChannelId.ERROR)
        await container.leave()

    async def open_exec(self, anchor: Anchor, session: Session) -> Container:
        self.check(anchor)
        return await super().open_exec(anchor, session)

    async def open_attach(self, anchor: Anchor, session: Session) -> Container:
        self.check(anchor)
        return await super().open_attach(anchor, session)

    async def open_port(self, anchor: Anchor, port: int, *, pod: str | None = None) -> Container:
        self.check(anchor)
        return await super().open_port(anchor, port, pod=pod)

    async def list_usage(self, anchor: Anchor) -> Sequence[Usage]:
        thing = self.things.get(anchor.uid)
        if thing is None or thing.phase != "running":
            return []
        return [Usage(at=NOON, pod=f"{anchor.run_id}-0", container="main", cpu_cores=0.5, memory_bytes=1 << 20)]

    def check(self, anchor: Anchor) -> None:
        """Refuse what does not run."""
        thing = self.things.get(anchor.uid)
        if thing is None or thing.phase != "running":
            raise EngineRefusal(Reason.RUN_LOST, f"no container of run {anchor.run_id} runs")

    def write_log(self, run_id: str, content: bytes) -> None:
        super().write_log(run_id, content)
        for container in self.containers:
            is_attached = not container.session.command and container.port is None
            if is_attached and run_id in (container.anchor.run_uid, container.anchor.run_id):
                container.write_now(content)
