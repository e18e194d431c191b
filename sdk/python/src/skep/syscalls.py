"""The calls of an agent to the kernel.

Inside `handle_task` they go over the stream of that task, several at once if the agent wants; outside they go over `CoreService`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence

from skep.core import Core
from skep.names import (
    LEVELS,
    PRIORITIES,
    ROLES,
    RUNTIMES,
    SEVERITIES,
    TIERS,
    VISIBILITIES,
    Level,
    Priority,
    Role,
    Runtime,
    Severity,
    Tier,
    Visibility,
)
from skep.process import Process
from skep.route import Route, SyscallError
from skep.streams import ByteStream
from skep.values import Artifact, ArtifactInfo, ChildExit, Limits, Message, ResourceUsage, Schedule, Sibling, TaskResult
from skep.wire import agent_pb2 as wire

NO_REASON = "the kernel did not say why"


class Syscalls:
    """What an agent can ask of the kernel. Each call raises `SyscallError` with the kernel's words when it is refused."""

    _skep: Process

    # Processes

    async def spawn(
        self,
        name: str,
        role: Role = "task",
        cognitive_tier: Tier = "operational",
        system_prompt: str = "",
        tools: Sequence[str] | None = None,
        model: str | None = None,
        initial_task: str | None = None,
        runtime: Runtime = "python",
        limits: Limits | Mapping[str, int] | None = None,
        *,
        agent: type[Syscalls] | str = "",
        env: Mapping[str, str] | None = None,
        schedule: Schedule | None = None,
    ) -> int:
        """Spawns a child and returns its pid.

        `agent` is what the child runs: a class of an agent, or what the runtime wants (`module:Class`, a program). Without it
        the child is a row of the process table that runs nothing.
        """
        image = agent if isinstance(agent, str) else image_of(agent)
        if limits is not None and not isinstance(limits, Limits):
            limits = Limits(**limits)
        request = wire.SpawnRequest(
            name=name,
            role=ROLES.number(role),
            cognitive_tier=TIERS.number(cognitive_tier),
            model=model or "",
            system_prompt=system_prompt,
            tools=tools or [],
            limits=limits.write() if limits else None,
            env=dict(env or {}),
            initial_task=initial_task or "",
            runtime_type=RUNTIMES.number(runtime),
            runtime_image=image,
            schedule=wire.Schedule(cron=schedule.cron, keep_alive=schedule.keep_alive) if schedule else None,
        )
        answer = (await self._route.perform(wire.SystemCall(spawn=request))).spawn
        if not answer.success:
            raise SyscallError("spawn", answer.error or NO_REASON)
        self._skep.children.add(answer.child_pid)
        return answer.child_pid

    async def kill(self, pid: int, recursive: bool = True, grace_seconds: int = 0) -> list[int]:
        """Ends a child, with its whole branch if `recursive`, and returns the pids that ended."""
        request = wire.KillRequest(target_pid=pid, recursive=recursive, grace_period_seconds=grace_seconds)
        answer = (await self._route.perform(wire.SystemCall(kill=request))).kill
        if not answer.success:
            raise SyscallError("kill", answer.error or NO_REASON)
        self._skep.children.difference_update(answer.killed_pids)
        return list(answer.killed_pids)

    async def execute_on(self, pid: int, description: str, params: Mapping[str, str] | None = None, timeout: int = 0) -> TaskResult:
        """Gives a child a task and waits for its result. 0 seconds mean the kernel's own limit."""
        task = wire.TaskRequest(description=description, params=dict(params or {}), timeout_seconds=timeout)
        request = wire.ExecuteOnRequest(target_pid=pid, task=task)
        answer = (await self._route.perform(wire.SystemCall(execute_on=request))).execute_on
        if not answer.success:
            raise SyscallError("execute_on", answer.error or NO_REASON)
        return TaskResult.read(answer.result)

    async def wait_child(self, pid: int, timeout: int = 60) -> ChildExit:
        """Waits until a child has ended, and returns its exit code and output."""
        request = wire.WaitChildRequest(target_pid=pid, timeout_seconds=timeout)
        answer = (await self._route.perform(wire.SystemCall(wait_child=request))).wait_child
        if not answer.success:
            raise SyscallError("wait_child", answer.error or NO_REASON)
        self._skep.children.discard(answer.pid)
        return ChildExit(answer.pid, answer.exit_code, answer.output)

    async def list_siblings(self) -> list[Sibling]:
        """The other children of this process's parent."""
        call = wire.SystemCall(list_siblings=wire.ListSiblingsRequest())
        answer = (await self._route.perform(call)).list_siblings
        return [Sibling(one.pid, one.name, one.role, one.state) for one in answer.siblings]

    # Messages

    async def send(
        self,
        to_pid: int | None = None,
        to_queue: str | None = None,
        type: str = "default",
        payload: bytes | str | None = None,
        priority: Priority = "normal",
        requires_ack: bool = False,
        ttl: int = 0,
        reply_to: str = "",
    ) -> str:
        """Sends a message to a process or to a named queue, and returns the message's id."""
        if (to_pid is None) == (to_queue is None):
            raise ValueError("a message goes either to a process (`to_pid`) or to a queue (`to_queue`)")
        request = wire.SendMessageRequest(
            to_pid=to_pid or 0,
            to_queue=to_queue or "",
            type=type,
            priority=PRIORITIES.number(priority),
            payload=as_bytes(payload),
            requires_ack=requires_ack,
            ttl_seconds=ttl,
            reply_to=reply_to,
        )
        answer = (await self._route.perform(wire.SystemCall(send=request))).send
        if not answer.delivered:
            raise SyscallError("send", answer.error or NO_REASON)
        return answer.message_id

    def subscribe(self, queue: str, type_filter: str | None = None, min_priority: Priority | None = None) -> AsyncIterator[Message]:
        """Messages of a named queue, as they come: `async for message in self.subscribe("queue")`."""
        return self._kernel.subscribe(queue, type_filter or "", min_priority)

    async def open_stream(self, pid: int, name: str = "bytes", wait_seconds: int | None = None) -> ByteStream:
        """Opens a stream of bytes to the parent or to a child, and waits until it has opened it too, by the same name."""
        return await self._kernel.open_stream(pid, name, wait_seconds)

    # Artifacts

    async def store(
        self,
        key: str,
        content: bytes | str,
        visibility: Visibility = "user",
        content_type: str | None = None,
    ) -> str:
        """Stores an artifact and returns its id. A text is stored as UTF-8."""
        default = "text/plain; charset=utf-8" if isinstance(content, str) else "application/octet-stream"
        request = wire.StoreArtifactRequest(
            key=key,
            content=as_bytes(content),
            content_type=content_type or default,
            visibility=VISIBILITIES.number(visibility),
        )
        answer = (await self._route.perform(wire.SystemCall(store=request))).store
        if not answer.success:
            raise SyscallError("store", answer.error or NO_REASON)
        return answer.artifact_id

    async def get_artifact(self, key: str) -> bytes | None:
        """The content of an artifact, or `None` where this process sees none of that key."""
        answer = await self._artifact(key, "")
        return answer.content if answer.found else None

    async def read_artifact(self, key: str = "", artifact_id: str = "") -> Artifact:
        """An artifact by its key or id, with its type and who stored it. Raises `SyscallError` where there is none."""
        answer = await self._artifact(key, artifact_id)
        if not answer.found:
            raise SyscallError("get_artifact", answer.error or f"there is no artifact `{key or artifact_id}`")
        return Artifact(answer.content, answer.content_type, answer.stored_by_pid, answer.stored_at)

    async def list_artifacts(self, prefix: str = "", stored_by_pid: int = 0) -> list[ArtifactInfo]:
        """The artifacts that this process may see, by the beginning of their keys and by who stored them."""
        return await self._kernel.list_artifacts(prefix, stored_by_pid)

    # Escalation and resources

    async def escalate(
        self,
        issue: str,
        severity: Severity = "warning",
        auto_propagate: bool = True,
        context: Mapping[str, str] | None = None,
    ) -> str:
        """Tells the parent of a problem that this process cannot solve, and returns what was answered."""
        request = wire.EscalateRequest(
            issue=issue,
            severity=SEVERITIES.number(severity),
            context=dict(context or {}),
            auto_propagate=auto_propagate,
        )
        answer = (await self._route.perform(wire.SystemCall(escalate=request))).escalate
        if not answer.received:
            raise SyscallError("escalate", answer.response or "nobody received it")
        return answer.response

    async def get_resources(self) -> ResourceUsage:
        """What this process has used and has left."""
        return await self._kernel.resource_usage()

    async def request_resources(self, resource_type: str, amount: int, justification: str) -> tuple[bool, int]:
        """Asks the parent for more. Returns whether something was granted, and how much."""
        task = self._skep.current
        with task.waiting() if task is not None else contextlib.nullcontext():
            answer = await self._kernel.request_resources(resource_type, amount, justification)
        return answer.granted, answer.granted_amount

    # Reports

    async def log(self, level: Level, message: str, **fields: object) -> None:
        """Writes a line to the kernel's log. A field `event_type` names the kind of event that dashboards show."""
        request = wire.LogRequest(level=LEVELS.number(level), message=message, fields={name: str(value) for name, value in fields.items()})
        await self._route.perform(wire.SystemCall(log=request))

    async def report_metric(self, name: str, value: float, **labels: str) -> None:
        """Reports a number to the kernel."""
        await self._kernel.report_metric(name, value, labels)

    # How a call goes

    @property
    def _kernel(self) -> Core:
        core = self._skep.core
        if core is None or not self._skep.pid:
            raise SyscallError("call", "this agent runs under no kernel: it was not started by the runner, or not yet by `Init`")
        return core

    @property
    def _route(self) -> Route:
        task = self._skep.current
        return task if task is not None and task.is_open else self._kernel

    async def _artifact(self, key: str, artifact_id: str) -> wire.GetArtifactResponse:
        request = wire.GetArtifactRequest(key=key, artifact_id=artifact_id)
        return (await self._route.perform(wire.SystemCall(get_artifact=request))).get_artifact


def image_of(agent: type[Syscalls]) -> str:
    """How the kernel's runner finds a class: `module:Class`."""
    if agent.__module__ == "__main__" or "<locals>" in agent.__qualname__:
        raise ValueError(f"`{agent.__qualname__}` cannot be imported by another process: put it at the top of a module")
    return f"{agent.__module__}:{agent.__qualname__}"


def as_bytes(content: bytes | str | None) -> bytes:
    return content.encode() if isinstance(content, str) else content or b""
