# Generated from ../aio/run.py by `make sdk`: do not edit.
"""A run: wait for it, read its log, ask why it is in its state, stop it."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from time import monotonic
from typing import Literal, overload

from runyard.sdk import sessions
from runyard.sdk.calls import Json, delete, get, post
from runyard.sdk.documents import FINAL, RunView, Section, explain_state
from runyard.sdk.errors import NotFound, RunFailed, WaitTimeout
from runyard.sdk.explanations import Explanation, read_explanation
from runyard.sdk.html_tables import Listing
from runyard.sdk.log_reader import LogLine, StreamTitles
from runyard.sdk.run_progress import RunProgress, open_progress
from runyard.sdk.sessions.channels import (
    ExecResult,
    OnProblem,
    PortForward,
    make_attach_call,
    make_exec_call,
    make_port_call,
)
from runyard.sdk.sync.log_follow import OnAway, follow_log, read_tail
from runyard.sdk.sync.transport import Transport

FIRST_POLL_SECONDS = 0.2
LONGEST_POLL_SECONDS = 2.0
MOST_EVENT_PAGES = 100
MOST_LOG_CHARACTERS = 64 << 20
"""The most of a log that `logs()` returns; the end of it."""
DRAIN_POLL_SECONDS = 0.2
MOST_DRAIN_POLLS = 50
"""How often a live view asks whether the log of a run that has ended is complete."""
Until = Literal["end", "running"]


class Run(RunView):
    """A run as it was when it was read last; `refresh` reads it again."""

    def __init__(self, document: Json, transport: Transport) -> None:
        super().__init__(document)
        self._transport = transport

    def refresh(self) -> "Run":
        """Read it again."""
        self._document = self._transport.fetch(get(*self._path))
        return self

    def wait(
        self,
        *,
        until: Until | None = None,
        timeout: float | None = None,
        progress: bool = False,
        check: bool = False,
    ) -> "Run":
        """Wait until it has ended; a service, until it is running or has ended (`until` says otherwise).

        `timeout` is in seconds: raises `WaitTimeout`, and the run goes on. With `progress`, changes of state are
        printed to standard error; a notebook shows a live view with the end of the log. With `check`, raises
        `RunFailed` if it did not complete.
        """
        wanted = until or ("running" if self.is_service else "end")
        deadline = None if timeout is None else monotonic() + timeout
        pause, view = FIRST_POLL_SECONDS, open_progress() if progress else None
        while True:
            self.refresh()
            if view is not None:
                self._show(view)
            if self.has_ended or (wanted == "running" and self.state == "RUNNING"):
                break
            if deadline is not None and monotonic() + pause > deadline:
                raise WaitTimeout(f"run {self.id} is still {self.state} after {timeout} seconds; it goes on")
            time.sleep(pause)
            pause = min(LONGEST_POLL_SECONDS, pause * 1.3)
        if check and self.has_failed:
            raise RunFailed(f"run {self.id}: {self.describe()}", self)
        return self

    @overload
    def logs(
        self,
        *,
        follow: Literal[False] = False,
        tail: int | None = None,
        container: str | None = None,
        pod: str | None = None,
    ) -> str: ...

    @overload
    def logs(
        self,
        *,
        follow: Literal[True],
        tail: int | None = None,
        container: str | None = None,
        pod: str | None = None,
    ) -> Iterator[str]: ...

    def logs(
        self,
        *,
        follow: bool = False,
        tail: int | None = None,
        container: str | None = None,
        pod: str | None = None,
    ) -> str | Iterator[str]:
        """Its log as text; with `follow`, its lines until it has ended, also if the server is restarted meanwhile.

        If it has several containers, a line such as `==> main <==` says where the output of each begins.
        """
        if follow:
            return self._iter_texts(follow=True, tail=tail, container=container, pod=pod)
        return self._read_log(tail=tail, container=container, pod=pod)

    def iter_log(
        self,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: str | None = None,
        container: str | None = None,
        pod: str | None = None,
        on_away: OnAway | None = None,
    ) -> Iterator[LogLine]:
        """The lines of its log with the names of their streams. `on_away` is called while the server is away."""
        flag = "true" if follow else None
        path = (*self._path, "log")
        call = get(*path, follow=flag, tail=tail, since=since, container=container, pod=pod)
        is_complete = self._is_log_complete if follow else None
        for line in follow_log(self._transport, call, is_complete=is_complete, on_away=on_away):
            yield line

    def events(self) -> list[Section]:
        """Its transitions, oldest first: `sequence`, `status`, `time`, `actor`, `reason`, `message`."""
        found = Listing[Section]()
        for _ in range(MOST_EVENT_PAGES):
            after = found[-1]["sequence"] if found else None
            page = self._transport.fetch(get(*self._path, "events", after=after))
            found += map(Section, page)
            if len(page) < 100:
                break
        return found

    def explain(self) -> Explanation:
        """What was decided when it was submitted: every value and who set it."""
        return read_explanation(self._transport.fetch(get(*self._path, "effective")))

    def effective(self) -> Section:
        """The values that it runs with."""
        return (self.explain()).effective

    def why(self) -> str:
        """Why it is in its state, in words, with the transitions that led there."""
        self.refresh()
        return explain_state(self, self.events())

    def metrics(self) -> Section:
        """Its metrics by name: a number or a list of numbers."""
        return Section(self._transport.fetch(get(*self._path, "metrics")))

    def usage(self) -> list[Section]:
        """What its containers use now: `pod`, `container`, `cpu_cores`, `memory_bytes`, `at`. Raises `NotSupported`."""
        found = self._transport.fetch(get(*self._path, "usage"))
        return [Section(usage) for usage in found["containers"]]

    def exec(
        self,
        command: Sequence[str],
        *,
        input: bytes | str | None = None,  # noqa: A002 - as in `subprocess.run`
        container: str | None = None,
        pod: str | None = None,
        timeout: float | None = None,
    ) -> ExecResult:
        """Execute a command in its container to the end: `exit_code`, `stdout`, `stderr`. No shell reads the command.

        Raises `NotSupported` if the engine cannot, and `WaitTimeout` after `timeout` seconds; the command may go on.
        """
        stdin = input is not None
        call = make_exec_call(self._path, command, stdin=stdin, tty=False, container=container, pod=pod)
        content = input.encode() if isinstance(input, str) else input
        return sessions.blocking.execute(self._transport, call, content=content, timeout=timeout)

    def open_exec(
        self,
        command: Sequence[str],
        *,
        stdin: bool = False,
        tty: bool = False,
        container: str | None = None,
        pod: str | None = None,
    ) -> "AbstractContextManager[sessions.blocking.Session]":
        """Execute a command whose input and output move at once, with `tty` at a terminal: a session for a `with`."""
        call = make_exec_call(self._path, command, stdin=stdin, tty=tty, container=container, pod=pod)
        return sessions.blocking.open_session(self._transport, call)

    def open_attach(
        self, *, stdin: bool = False, tty: bool = False, container: str | None = None, pod: str | None = None
    ) -> "AbstractContextManager[sessions.blocking.Session]":
        """Attach to the main process of its container: a session with what it prints from now on."""
        call = make_attach_call(self._path, stdin=stdin, tty=tty, container=container, pod=pod)
        return sessions.blocking.open_session(self._transport, call)

    def port_forward(
        self,
        port: int,
        *,
        local_port: int = 0,
        host: str = "127.0.0.1",
        pod: str | None = None,
        on_problem: OnProblem | None = None,
    ) -> AbstractContextManager[PortForward]:
        """Forward a port of this machine to one of the run, while a `with` lasts; `port` and `host` say where it is.

        Each connection stands alone: `on_problem` is called with the error of one that could not be forwarded.
        """
        call = make_port_call(self._path, port, pod=pod)
        return sessions.blocking.forward_port(self._transport, call, host=host, port=local_port, on_problem=on_problem)

    def stop(self, *, reason: str | None = None) -> "Run":
        """Ask it to stop; `wait` until it has. It is no error if it has ended meanwhile."""
        self.refresh()
        if self.state not in FINAL:
            call = post(*self._path, "stop", reason=reason, is_safe_to_repeat=True)
            self._document = self._transport.fetch(call)
        return self

    def resume(self, *, reason: str | None = None) -> "Run":
        """Resume a stopped service."""
        self._document = self._transport.fetch(post(*self._path, "resume", reason=reason))
        return self

    def delete(self) -> None:
        """Delete it with its log and everything it created."""
        self._transport.fetch(delete(*self._path))

    @property
    def _path(self) -> tuple[str, ...]:
        return ("-", self.project_name, "runs", self.id)

    def _read_log(self, *, tail: int | None, container: str | None, pod: str | None) -> str:
        """The log; of a very long one, the end, after a line that says so."""
        lines, size, left_out = deque[str](), 0, 0
        for line in self._iter_texts(follow=False, tail=tail, container=container, pod=pod):
            lines.append(line)
            size += len(line)
            while size > MOST_LOG_CHARACTERS:
                left_out += 1
                size -= len(lines.popleft())
        note = [f"[{left_out} lines are left out; `iter_log` has all]"] if left_out else []
        return "".join(f"{line}\n" for line in (*note, *lines))

    def _show(self, view: RunProgress) -> None:
        """Show it as it is now, with the end of its log; once it has ended, that of the complete log."""
        for _ in range(MOST_DRAIN_POLLS if view.lines and self.has_ended else 0):
            if self._is_log_complete():
                break
            time.sleep(DRAIN_POLL_SECONDS)
        call = get(*self._path, "log", tail=view.lines)
        view.show(self, read_tail(self._transport, call) if view.lines else ())

    def _is_log_complete(self) -> bool:
        try:
            self.refresh()
        except NotFound:
            return True
        logs = self.status.get("logs") or {}
        return self.has_ended and logs.get("state") != "draining"

    def _iter_texts(self, *, follow: bool, tail: int | None, container: str | None, pod: str | None) -> Iterator[str]:
        titles = StreamTitles()
        for line in self.iter_log(follow=follow, tail=tail, container=container, pod=pod):
            if (title := titles.make(line)) is not None:
                yield title
            yield line.text
