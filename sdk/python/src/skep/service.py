"""What the kernel asks of an agent: the server of `AgentService`.

**Invariant.** Nothing of the agent's own code decides over the protocol: whatever it raises becomes an answer to the kernel and a
line on stderr, and the next request is served.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, TypeVar

import grpc
import grpc.aio

from skep.agent import BaseAgent
from skep.inbox import Inbox
from skep.limits import CANCEL_SECONDS_MAX, GRACE_SECONDS_DEFAULT, SNAPSHOT_BYTES_MAX, TASK_LINGER_SECONDS
from skep.names import ACKS, REASONS, STATES, Ack
from skep.route import SyscallError
from skep.running import CURRENT, RunningTask
from skep.values import Message, MessageAck, Task, TaskResult
from skep.wire import agent_pb2 as wire
from skep.wire import agent_pb2_grpc

logger = logging.getLogger("skep.agent")

REMEMBERS_IDS: Final = ("x-skep-remembers-ids", "1")
"""Tells the kernel that it may deliver a message again when it does not know what became of the first delivery."""

STATE_KEY: Final = "skep.state_snapshot"
"""Where `Init` carries what the agent returned from its last `on_shutdown`, in base64."""

EXIT_OK: Final = 0
EXIT_INIT_FAILED: Final = 3

T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]


class AgentServer(agent_pb2_grpc.AgentServiceServicer):
    """Serves one agent until its process is to end, and then says with which exit code."""

    def __init__(self, agent: BaseAgent) -> None:
        self._agent = agent
        self._process = agent._skep  # noqa: SLF001  the agent's own half of the package
        self._inbox = Inbox(self._answer)
        self._init: asyncio.Task[wire.InitResponse] | None = None
        self._pid = 0
        self._shutdown: asyncio.Task[wire.ShutdownResponse] | None = None
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def was_asked(self) -> bool:
        """Whether an `Init` came."""
        return self._init is not None

    def end(self, code: int) -> None:
        """Says that the process is to end. The first code holds."""
        if not self.ended.done():
            self.ended.set_result(code)

    # Lifecycle

    async def Init(self, request: wire.InitRequest, context: Context) -> wire.InitResponse:  # noqa: N802
        context.set_trailing_metadata((REMEMBERS_IDS,))
        if self._init is None:
            self._init, self._pid = asyncio.create_task(self._prepare(request)), request.pid
        elif request.pid != self._pid:
            error = f"this is process {self._pid}; a process has one pid for its whole life"
            return wire.InitResponse(ready=False, error=error)
        # The kernel may ask again when it did not hear the first answer; the agent still begins once.
        answer = await asyncio.shield(self._init)
        if not answer.ready:
            asyncio.get_running_loop().call_later(TASK_LINGER_SECONDS, self.end, EXIT_INIT_FAILED)
        return answer

    async def _prepare(self, request: wire.InitRequest) -> wire.InitResponse:
        try:
            if request.pid == 0:
                raise ValueError("no process has the pid 0")  # noqa: TRY301  told as every other failure
            self._process.take(request)
            state = state_of(request)
            await self._agent.on_init(self._process.config)
            if state is not None:
                await self._agent.on_restore(state)
        except Exception as error:
            logger.exception("init of process %d failed", request.pid)
            return wire.InitResponse(ready=False, error=text_of(error))
        logger.info("process %d (`%s`) is ready", self._process.pid, self._process.config.name)
        return wire.InitResponse(ready=True)

    async def Heartbeat(self, request: wire.HeartbeatRequest, context: Context) -> wire.HeartbeatResponse:  # noqa: N802
        process = self._process
        return wire.HeartbeatResponse(
            state=STATES.number(process.state),
            context_usage_percent=process.context_usage_percent,
            tokens_consumed=process.tokens_consumed,
            active_children=len(process.children),
            current_task_id=process.running[0].task.task_id if process.running else "",
        )

    async def Shutdown(self, request: wire.ShutdownRequest, context: Context) -> wire.ShutdownResponse:  # noqa: N802
        # A newer kernel may know more reasons; the state is worth saving for each of them.
        reason = REASONS.word(request.reason) if request.reason in wire.ShutdownReason.values() else "unknown"
        answer = await self.shut_down(reason, float(request.grace_period_seconds))
        self.end(EXIT_OK)
        return answer

    async def shut_down(self, reason: str, grace_seconds: float = 0.0) -> wire.ShutdownResponse:
        """Stops what runs and asks the agent for its state, once, however often it is called."""
        if self._shutdown is None:
            self._shutdown = asyncio.create_task(self._stop(reason, grace_seconds or GRACE_SECONDS_DEFAULT))
        return await asyncio.shield(self._shutdown)

    async def _stop(self, reason: str, grace_seconds: float) -> wire.ShutdownResponse:
        logger.info("shutdown: %s", reason)
        until = time.monotonic() + grace_seconds
        self._process.is_stopped = True
        stopped = list(self._process.running)
        # Half of the time for what runs, so that the agent has the other half to save its state.
        await stop_tasks(stopped, f"shutdown: {reason}", grace_seconds / 2)
        snapshot: bytes | None = None
        if self.was_asked:
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    snapshot = await self._agent.on_shutdown(reason)
            except Exception:
                logger.exception("on_shutdown failed; nothing of the agent's state is kept")
        await self._inbox.stop(max(0.0, until - time.monotonic()))
        if snapshot and len(snapshot) > SNAPSHOT_BYTES_MAX:
            logger.error("the state has %d bytes, more than %d; nothing of it is kept", len(snapshot), SNAPSHOT_BYTES_MAX)
            snapshot = None
        answer = wire.ShutdownResponse(state_snapshot=snapshot or b"")
        if (partial := partial_of(stopped)) is not None:
            answer.partial_result.CopyFrom(partial.write())
        return answer

    # Tasks

    async def Execute(  # type: ignore[override]  # noqa: N802  it writes to the context: a generator would outlive a cancelled call
        self, inputs: AsyncIterator[wire.ExecuteInput], context: Context
    ) -> None:
        running = await self._accept(inputs, context)
        running.job = asyncio.create_task(self._run(running))
        reader = asyncio.create_task(running.read(inputs))
        self._process.running.append(running)
        try:
            # Before anything else is said: the kernel knows from here on that an interruption finds the task.
            await context.send_initial_metadata(())
            async for report in running.reports():
                await context.write(report)
            # A job that ended by itself has sent its result; one that died says why here.
            await running.job
        finally:
            # The kernel is gone, or the task is over: either way nothing of it goes on.
            reader.cancel()
            running.end()
            await stop_tasks([running], "the kernel went away", CANCEL_SECONDS_MAX)
            self._process.running.remove(running)
            self._process.tasks_ended += 1
            if self._process.role == "task":
                asyncio.get_running_loop().call_later(TASK_LINGER_SECONDS, self.end, EXIT_OK)

    async def _accept(self, inputs: AsyncIterator[wire.ExecuteInput], context: Context) -> RunningTask:
        """The task that opens a stream; anything else ends it with the reason."""
        if self._init is None or not (await asyncio.shield(self._init)).ready:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the agent is not initialized")
        first = await anext(aiter(inputs), None)
        if first is None or first.WhichOneof("input") != "task":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first input of a stream is its task")
            raise AssertionError("abort returns to nobody")
        # Nothing is awaited from here until the task is in the list: two streams at once cannot both pass.
        if self._process.is_stopped:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the agent shuts down")
        if self._process.role == "task" and (self._process.running or self._process.tasks_ended):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "a process of the role task has one task")
        try:
            return RunningTask(Task.read(first.task))
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise

    async def _run(self, running: RunningTask) -> None:
        CURRENT.set(running)
        task_id = running.task.task_id
        running.has_begun = True
        if running.stop_reason is not None:
            await send_last(running, stopped_report(running, None))
            return
        try:
            result = await self._agent._work(running.task)  # noqa: SLF001  the agent's own half of the package
            report = final_report(result)
            if running.stop_reason is not None:
                report = stopped_report(running, result)
        except asyncio.CancelledError:
            if running.stop_reason is None:
                raise
            report = stopped_report(running, None)
        except Exception as error:
            logger.exception("task `%s` failed", task_id)
            text = text_of(error)
            if running.stop_reason is not None:
                report = stopped_report(running, None)
            else:
                report = failed_report(text, TaskResult(exit_code=1, output=text))
        await send_last(running, report)

    async def Interrupt(self, request: wire.InterruptRequest, context: Context) -> wire.InterruptResponse:  # noqa: N802
        named = [one for one in self._process.running if request.task_id in ("", one.task.task_id)]
        if not named:
            return wire.InterruptResponse(acknowledged=False)
        logger.info("interrupt of %d task(s): %s", len(named), request.reason)
        ended = await stop_tasks(named, f"interrupted: {request.reason}" if request.reason else "interrupted", CANCEL_SECONDS_MAX)
        answer = wire.InterruptResponse(acknowledged=ended)
        if (partial := partial_of(named)) is not None:
            answer.partial_result.CopyFrom(partial.write())
        return answer

    # Messages

    async def DeliverMessage(self, request: wire.AgentMessage, context: Context) -> wire.MessageAck:  # noqa: N802
        if not self.was_asked:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the agent is not initialized")
        if self._process.is_stopped:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the agent shuts down")
        try:
            message = Message.read(request)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise
        try:
            ack = await self._inbox.deliver(message)
        except Exception as error:
            logger.exception("message `%s` failed", request.message_id)
            await context.abort(grpc.StatusCode.INTERNAL, text_of(error))
            raise
        return wire.MessageAck(message_id=request.message_id, status=ACKS.number(Ack(ack.status).name), reply=ack.reply)

    async def _answer(self, message: Message) -> MessageAck:
        ack = await self._agent.on_message(message)
        if not isinstance(ack, MessageAck):
            raise TypeError(f"on_message returned {type(ack).__name__}, not MessageAck")
        Ack(ack.status)
        return ack


async def stop_tasks(tasks: Iterable[RunningTask], reason: str, seconds: float) -> bool:
    """Cancels tasks and waits for them. Says whether all of them ended in time."""
    jobs = set()
    for running in tasks:
        if running.job is not None and not running.job.done():
            running.stop(reason)
            jobs.add(running.job)
    if not jobs:
        return True
    _, late = await asyncio.wait(jobs, timeout=seconds)
    if late:
        logger.warning("%d task(s) went on after they were cancelled (%s)", len(late), reason)
    return not late


def partial_of(tasks: Iterable[RunningTask]) -> TaskResult | None:
    """What is left of the task that ran longest; of one that goes on after its cancellation, what it kept."""
    for running in tasks:
        if (left := running.partial or running.kept) is not None:
            return left
    return None


def final_report(result: TaskResult) -> wire.TaskProgress:
    if not isinstance(result, TaskResult):
        raise TypeError(f"handle_task returned {type(result).__name__}, not TaskResult")
    return wire.TaskProgress(type=wire.PROGRESS_COMPLETED, message="completed", progress_percent=100.0, result=result.write())


def failed_report(message: str, result: TaskResult) -> wire.TaskProgress:
    return wire.TaskProgress(type=wire.PROGRESS_FAILED, message=message, result=result.write())


def stopped_report(running: RunningTask, returned: TaskResult | None) -> wire.TaskProgress:
    return failed_report(running.stop_reason or "stopped", running.left(returned))


async def send_last(running: RunningTask, report: wire.TaskProgress) -> None:
    """Sends the result, or, where it is too large for the kernel, that it was."""
    try:
        await running.report(report)
    except SyscallError as error:
        logger.error("task `%s`: %s", running.task.task_id, error)  # noqa: TRY400  the text says all
        text = f"the result is too large; store it as an artifact: {error.reason}"
        await running.report(failed_report(text, TaskResult(exit_code=1, output=text)))


def state_of(request: wire.InitRequest) -> bytes | None:
    """What the agent returned in the life before, or `None`. Damaged, it raises `ValueError`: half a state is worse than none."""
    encoded = request.config.metadata.get(STATE_KEY)
    if not encoded:
        return None
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError(f"`{STATE_KEY}` is not base64: {error}") from error


def text_of(error: BaseException) -> str:
    """An exception in words: its text, and its name where it has none."""
    return str(error) or type(error).__name__
