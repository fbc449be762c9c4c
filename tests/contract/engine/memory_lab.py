"""The lab of the engine in memory. It executes the scripts itself, a line at a time."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args
from uuid import uuid4

from runyard.app.engine import Anchor, Assignment, ContainerEnd, Engine, VolumeState
from runyard.domain.effective_spec import EffectiveSpec
from tests.contract.engine.lab import Capability
from tests.contract.engine.memory_sessions import SessionEngine
from tests.contract.engine.scripts import Line, parse_command
from tests.engines.memory import MemoryEngine
from tests.engines.memory_manifests import PLATFORM
from tests.engines.memory_objects import Thing

_LARGE_EVENTS = [{"message": "x" * 1000, "count": count} for count in range(5000)]


class MemoryLab:
    """`tests.contract.engine.lab.Lab`."""

    capabilities: frozenset[Capability] = frozenset(get_args(Capability))
    """All of them."""
    patience = 60
    platform = PLATFORM

    def __init__(self, engine: MemoryEngine | None = None) -> None:
        self.memory = engine or SessionEngine()
        self.memory.is_admitting = True
        self.engine: Engine = self.memory
        self.project, self.other_project = "p", "q"
        self._sent: defaultdict[str, list[str]] = defaultdict(list)
        self._lines: dict[tuple[str, int], list[Line]] = {}

    def adapt(self, spec: EffectiveSpec) -> EffectiveSpec:
        return replace(spec, image="busybox", run_as_user=1000)

    async def rest(self) -> None:
        self.memory.tick()
        for thing in list(self.memory.things.values()):
            if thing.phase == "running":
                self._execute(thing)
        # The tasks of a test get their turns: a few, since one wakes another.
        for _ in range(4):
            await asyncio.sleep(0)

    async def pass_time(self) -> None:
        for _ in range(8):
            await self.rest()

    async def reopen(self) -> Engine:
        return self.memory.reopen()

    async def send(self, assignment: Assignment, word: str) -> None:
        self._sent[assignment.run_uid].append(word)

    async def kill(self, assignment: Assignment, signal: int) -> None:
        thing = self._get(assignment.run_uid)
        self._end(thing, 128 + signal, signal=signal)

    async def lose(self, assignment: Assignment) -> None:
        self.memory.lose(assignment.run_uid)

    async def list_sent(self, run_uid: str) -> Sequence[bytes]:
        return self.memory.sent.get(run_uid, [])

    async def count_secret_values(self, text: str) -> int:
        held = [*self.memory.secrets.values(), *self.memory.tokens.values()]
        return sum(text in json.dumps(value) for value in held)

    async def count_objects(self, run_uid: str) -> int:
        uids = {thing.anchor.uid for thing in self.memory.things.values() if thing.anchor.run_uid == run_uid}
        made = {*self.memory.made.get(run_uid, [])}
        return len(uids) + sum(uid in made for uid in (*self.memory.secrets, *self.memory.tokens))

    async def cut(self) -> None:
        self.memory.cut()

    async def mend(self) -> None:
        self.memory.mend()

    async def hide(self, project: str) -> None:
        self.memory.hidden.add(project)

    async def show(self, project: str) -> None:
        self.memory.hidden.discard(project)

    async def begin_epoch(self) -> None:
        self.memory.begin_epoch()

    async def rotate_log(self, assignment: Assignment) -> None:
        self.memory.rotate_log(assignment.run_uid)

    async def flood(self, assignment: Assignment) -> None:
        self.memory.add_events(assignment.run_uid, _LARGE_EVENTS)

    async def restart_often(self, assignment: Assignment, times: int) -> None:
        for _ in range(times):
            self.memory.restart(assignment.run_uid)

    async def make_foreign_anchor(self, project: str) -> str:
        anchor = Anchor(run_uid=uuid4().hex, run_id="r1", project=project, action="job", uid="theirs")
        self.memory.foreign_anchors[anchor.run_uid] = anchor
        return anchor.run_uid

    async def take_name(self, assignment: Assignment) -> None:
        self.memory.strangers.add(assignment.run_uid)

    async def is_name_taken(self, assignment: Assignment) -> bool:
        return assignment.run_uid in self.memory.strangers

    async def make_foreign_project(self) -> str:
        self.memory.foreign_projects.add("theirs")
        return "theirs"

    async def has_project(self, project: str) -> bool:
        return self.memory.has_project(project)

    async def make_foreign_claim(self, project: str) -> str:
        claim = f"theirs-{uuid4().hex[:8]}"
        self.memory.volumes[project, claim] = VolumeState(
            project=project, claim=claim, volume_id=None, phase="bound", size="1Gi"
        )
        return claim

    def _get(self, run_uid: str) -> Thing:
        return next(thing for thing in self.memory.things.values() if thing.anchor.run_uid == run_uid)

    def _execute(self, thing: Thing) -> None:
        key = (thing.anchor.uid, thing.instance)
        lines = self._lines.setdefault(key, parse_command(thing.effective.command))
        while lines and thing.phase == "running" and thing.instance == key[1]:
            if not self._execute_line(thing, lines[0]):
                return
            del lines[0]
        if thing.phase == "running" and thing.instance == key[1]:
            self._end(thing, 0)

    def _execute_line(self, thing: Thing, line: Line) -> bool:
        """Execute a line; returns whether the next one follows."""
        text, *others = line.values
        if line.verb == "wait":
            words = self._sent[thing.anchor.run_uid]
            if text not in words:
                return False
            words.remove(text)
        elif line.verb == "leave":
            self._end(thing, int(text))
        elif line.verb == "fill":
            self._end(thing, 137, signal=9, is_out_of_memory=True)
        elif line.verb == "save":
            self._open(thing, others[0])[others[0]] = f"{text}\n"
        else:
            self.memory.write_log(thing.anchor.run_uid, self._make_output(thing, line.verb, text))
        return True

    def _make_output(self, thing: Thing, verb: str, text: str) -> bytes:
        if verb == "numbers":
            return b"".join(b"%d\n" % number for number in range(1, int(text) + 1))
        if verb == "octal":
            return bytes([int(text, 8)])
        if verb == "variable":
            return f"{self.memory.secrets[thing.anchor.uid].get(text, '')}\n".encode()
        if verb == "file":
            return self._open(thing, text).get(text, "").encode()
        return f"{text}\n".encode()

    def _open(self, thing: Thing, path: str) -> dict[str, str]:
        for volume in thing.effective.volumes:
            if volume.claim_name is not None and path.startswith(f"{volume.mount_path}/"):
                return self.memory.files[thing.anchor.project, volume.claim_name]
        return {}

    def _end(self, thing: Thing, code: int, *, signal: int | None = None, is_out_of_memory: bool = False) -> None:
        limits = thing.effective.resources["mem"].limits
        end = ContainerEnd(
            pod=f"{thing.anchor.run_id}-0",
            container="main",
            instance=thing.instance,
            exit_code=code,
            signal=signal,
            is_out_of_memory=is_out_of_memory,
            peak_bytes=limits.value if is_out_of_memory and limits is not None else None,
        )
        if thing.effective.action in ("serve", "deploy"):
            self.memory.restart(thing.anchor.run_uid, end=end)
        else:
            self.memory.finish(thing.anchor.run_uid, phase="failed" if code else "succeeded", end=end)
