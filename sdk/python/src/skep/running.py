"""A task that runs: its stream to the kernel, the calls that it waits for, and what is kept of it if it is stopped.

**Invariant.** Each call gets the result that carries its own id, in whatever order results come. When the stream ends, every call
that waits ends too, with an error: nothing waits for a kernel that is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Final

from skep.limits import CALLS_OPEN_MAX, PROGRESS_QUEUED_MAX
from skep.route import SyscallError, call_name, check_size
from skep.values import Task, TaskResult
from skep.wire import agent_pb2 as wire

logger = logging.getLogger("skep.task")

INTERRUPTED: Final = 130
"""The exit code of a task that was stopped, as a shell has it for SIGINT."""

WAITS_FOR_OTHERS: Final = frozenset({"wait_child", "execute_on", "escalate"})
"""Calls whose answer depends on a person or another process: a task that makes one is blocked."""


class RunningTask:
    """One task and its `Execute` stream."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.job: asyncio.Task[None] | None = None
        self.kept: TaskResult | None = None
        """What the agent wants kept if the task is stopped now."""
        self.partial: TaskResult | None = None
        """What is left of the task after it was stopped."""
        self.stop_reason: str | None = None
        self.has_begun = False
        """Whether the job runs: one that is cancelled before that would end without a word."""
        self._reports: asyncio.Queue[wire.TaskProgress] = asyncio.Queue(PROGRESS_QUEUED_MAX)
        self._open = True
        self._over = False
        self._ids = itertools.count(1)
        self._calls: dict[str, tuple[str, asyncio.Future[wire.SyscallResult]]] = {}
        self._slots = asyncio.Semaphore(CALLS_OPEN_MAX)
        self._unanswered: set[str] = set()
        self._answer: asyncio.Future[str] | None = None
        self._question = asyncio.Lock()
        self._waits = 0

    @property
    def is_open(self) -> bool:
        """Whether calls may still go over this stream."""
        return self._open

    @property
    def is_blocked(self) -> bool:
        """Whether the task waits for a person or for another process."""
        return self._waits > 0

    async def perform(self, call: wire.SystemCall) -> wire.SyscallResult:
        """Makes a call over the stream and waits for the result with its id."""
        name = call_name(call)
        call.call_id = f"call-{next(self._ids)}"
        report = wire.TaskProgress(type=wire.PROGRESS_SYSCALL, message=name, syscalls=[call])
        check_size(name, report)
        await self._slots.acquire()
        if not self._open:
            self._slots.release()
            raise SyscallError(name, "the stream of the task is closed", "UNAVAILABLE")
        self._unanswered.add(call.call_id)
        result: asyncio.Future[wire.SyscallResult] = asyncio.get_running_loop().create_future()
        self._calls[call.call_id] = (name, result)
        try:
            await self._send(call.call_id, report)
            with self.waiting() if name in WAITS_FOR_OTHERS else contextlib.nullcontext():
                return await result
        finally:
            self._calls.pop(call.call_id, None)

    async def _send(self, call_id: str, report: wire.TaskProgress) -> None:
        try:
            await self.report(report)
        except BaseException:
            # It never reached the kernel, which will not answer it.
            self._answered(call_id)
            raise

    def _answered(self, call_id: str) -> bool:
        """Frees the place of a call. A call that was cancelled keeps its place until here: the kernel still works on it."""
        if call_id not in self._unanswered:
            return False
        self._unanswered.discard(call_id)
        self._slots.release()
        return True

    async def ask(self, question: str) -> str:
        """Asks whoever gave the task, and waits for the answer. One question is open at a time."""
        async with self._question:
            self._answer = asyncio.get_running_loop().create_future()
            try:
                await self.report(wire.TaskProgress(type=wire.PROGRESS_NEEDS_INPUT, message=question))
                with self.waiting():
                    return await self._answer
            finally:
                self._answer = None

    async def report(self, report: wire.TaskProgress) -> None:
        """Queues a report for the kernel; waits while too many are queued."""
        if self._over:
            raise SyscallError("report", "the task is over")
        report.task_id = self.task.task_id
        check_size("report", report)
        await self._reports.put(report)

    async def reports(self) -> AsyncIterator[wire.TaskProgress]:
        """What goes to the kernel, until the task's job is over and everything is out."""
        job = self.job
        if job is None:
            raise RuntimeError("the task was not started")
        while True:
            next_report = asyncio.ensure_future(self._reports.get())
            try:
                await asyncio.wait({next_report, job}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not next_report.done():
                    next_report.cancel()
            if next_report.done() and not next_report.cancelled():
                yield next_report.result()
                continue
            while not self._reports.empty():
                yield self._reports.get_nowait()
            return

    async def read(self, inputs: AsyncIterator[wire.ExecuteInput]) -> None:
        """Hands what comes from the kernel to those who wait for it, until the kernel ends the stream."""
        try:
            async for one in inputs:
                self._take(one)
        finally:
            self.close("the kernel closed the stream of the task")

    def close(self, why: str) -> None:
        """Ends the stream: calls that wait fail, later ones go another way."""
        self._open = False
        for call_id in list(self._unanswered):
            self._answered(call_id)
        for name, result in self._calls.values():
            if not result.done():
                result.set_exception(SyscallError(name, why, "UNAVAILABLE"))
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(SyscallError("ask", why, "UNAVAILABLE"))

    def end(self) -> None:
        """Takes note that the task is over: code that it left behind can report nothing more."""
        self._over = True
        self.close("the task is over")

    def stop(self, reason: str) -> None:
        """Cancels the task; what is left of it becomes its partial result."""
        if self.stop_reason is None:
            self.stop_reason = reason
        if self.job is not None and self.has_begun:
            self.job.cancel()

    def left(self, returned: TaskResult | None) -> TaskResult:
        """What is left of a task that was stopped: what it returned, else what it kept, else only that it was stopped."""
        left = returned or self.kept or TaskResult(exit_code=INTERRUPTED)
        self.partial = left
        return left

    def _take(self, one: wire.ExecuteInput) -> None:
        kind = one.WhichOneof("input")
        if kind == "syscall_result":
            self._settle(one.syscall_result)
        elif kind == "user_input":
            if self._answer is None or self._answer.done():
                logger.warning("task `%s`: an answer came that nobody asked for; dropped", self.task.task_id)
            else:
                self._answer.set_result(one.user_input)
        else:
            logger.warning("task `%s`: the kernel sent %s in the middle; dropped", self.task.task_id, kind or "nothing")

    def _settle(self, result: wire.SyscallResult) -> None:
        was_open = self._answered(result.call_id)
        waiting = self._calls.get(result.call_id)
        if waiting is None and was_open:
            return
        if waiting is None or waiting[1].done():
            logger.warning("task `%s`: a result for no open call `%.64s`; dropped", self.task.task_id, result.call_id)
            return
        name, future = waiting
        kind = result.WhichOneof("result")
        if kind != name:
            future.set_exception(SyscallError(name, f"the kernel answered with a result of {kind or 'nothing'}"))
        else:
            future.set_result(result)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Marks the task as blocked while something else is waited for."""
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1


CURRENT: Final[ContextVar[RunningTask | None]] = ContextVar("skep_running_task", default=None)
"""The task that the current code works for. Code that `asyncio.gather` or `create_task` starts inherits it."""
