"""The tree of the small kernel: its processes, which are real, its messages and its artifacts, in memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from skep.limits import RECEIVED_BYTES_MAX
from skep.names import ROLES, STATES
from skep.wire import agent_pb2 as wire
from skep.wire import agent_pb2_grpc, core_pb2

KING = 1
OPTIONS = [("grpc.max_receive_message_length", RECEIVED_BYTES_MAX)]


@dataclass
class Row:
    """A process of the table."""

    pid: int
    ppid: int
    request: wire.SpawnRequest
    user: str = "root"
    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    state: wire.AgentState.ValueType = wire.STATE_IDLE
    os_process: asyncio.subprocess.Process | None = None
    port: int = 0
    stub: agent_pb2_grpc.AgentServiceStub | None = None
    channel: grpc.aio.Channel | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    exit_code: int = 0
    output: str = ""
    snapshot: bytes = b""
    remembers_ids: bool = False
    stdout: list[str] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)
    inbox: list[wire.AgentMessage] = field(default_factory=list)
    tokens_remaining: int = 1_000_000
    current_task: str = ""
    started: float = field(default_factory=time.time)

    @property
    def is_live(self) -> bool:
        return not self.ended.is_set()


class SmallTree:
    """The process tree, its messages and its artifacts."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        king = wire.SpawnRequest(name="king", role=wire.ROLE_KERNEL, cognitive_tier=wire.COG_STRATEGIC, model="opus")
        self.rows: dict[int, Row] = {KING: Row(KING, 0, king, state=wire.STATE_RUNNING)}
        self.environment = environment or {}
        self.artifacts: dict[str, tuple[str, wire.StoreArtifactRequest, int]] = {}
        self.queues: dict[str, asyncio.Queue[wire.AgentMessage]] = defaultdict(asyncio.Queue)
        self.cron: dict[str, core_pb2.CronEntryProto] = {}
        self.logged: list[tuple[int, wire.LogRequest]] = []
        self.metrics: list[tuple[int, core_pb2.MetricRequest]] = []
        self.escalations: list[tuple[int, wire.EscalateRequest]] = []
        self.progress: list[wire.TaskProgress] = []
        self.history: list[core_pb2.ProcessEvent] = []
        self.new_event = asyncio.Condition()
        self.answer_question: Callable[[str], str] = lambda _question: ""
        self.calls_over_streams: list[str] = []
        self.calls_over_core: list[str] = []
        self.address = ""
        self._counts: dict[str, int] = defaultdict(int)
        self._work: set[asyncio.Task[None]] = set()

    async def end_all(self) -> None:
        for row in list(self.rows.values()):
            if row.pid != KING and row.is_live:
                await self.end(row, wire.SHUTDOWN_NORMAL, 2)
        for work in list(self._work):
            work.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    # Processes

    async def spawn(self, parent: Row, request: wire.SpawnRequest) -> wire.SpawnResponse:
        if parent.request.role in (wire.ROLE_TASK, wire.ROLE_ARCHITECT):
            return wire.SpawnResponse(error=f"spawn denied to the role {ROLES.word(parent.request.role)}")
        if request.cognitive_tier < parent.request.cognitive_tier:
            return wire.SpawnResponse(error="spawn denied: the child's tier is above its parent's")
        row = Row(self._next("pid") + 1, parent.pid, request, user=parent.user)
        self.rows[row.pid] = row
        await self.note("spawned", row)
        if request.runtime_image:
            try:
                await asyncio.wait_for(self._boot(row), 30)
            except (RuntimeError, TimeoutError, grpc.aio.AioRpcError) as error:
                if row.os_process is not None and row.os_process.returncode is None:
                    row.os_process.kill()
                await row.ended.wait()
                return wire.SpawnResponse(error=f"runtime start failed: {error}")
        if request.initial_task:
            self._begin(self._initial(row, request.initial_task))
        return wire.SpawnResponse(success=True, child_pid=row.pid)

    async def _boot(self, row: Row) -> None:
        environment = {
            **os.environ,
            **self.environment,
            **row.request.env,
            "HIVEKERNEL_PID": "999999",
            "HIVEKERNEL_CORE": self.address,
            "SKEP_SECRET": row.secret,
        }
        row.os_process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "skep.runner",
            "--agent",
            row.request.runtime_image,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._begin(self._drain(row, ready))
        row.port = await ready
        row.channel = grpc.aio.insecure_channel(f"127.0.0.1:{row.port}", options=OPTIONS)
        row.stub = agent_pb2_grpc.AgentServiceStub(row.channel)
        await self.init(row)

    async def init(self, row: Row, snapshot: str = "") -> None:
        assert row.stub is not None
        request = row.request
        metadata = {"skep.state_snapshot": snapshot} if snapshot else {}
        config = wire.AgentConfig(name=request.name, system_prompt=request.system_prompt, model=request.model, metadata=metadata)
        call = row.stub.Init(
            wire.InitRequest(
                pid=row.pid,
                ppid=row.ppid,
                user=row.user,
                role=request.role,
                cognitive_tier=request.cognitive_tier,
                config=config,
                limits=request.limits,
            )
        )
        answer = await call
        row.remembers_ids = ("x-skep-remembers-ids", "1") in [(str(key), value) for key, value in await call.trailing_metadata()]
        if not answer.ready:
            raise RuntimeError(answer.error)

    async def _drain(self, row: Row, ready: asyncio.Future[int]) -> None:
        process = row.os_process
        assert process is not None
        assert process.stdout is not None
        assert process.stderr is not None

        async def read(stream: asyncio.StreamReader, lines: list[str]) -> None:
            async for raw in stream:
                line = raw.decode(errors="replace").rstrip("\n")
                if line.startswith("READY ") and not ready.done():
                    ready.set_result(int(line.split()[1]))
                else:
                    lines.append(line)

        await asyncio.gather(read(process.stdout, row.stdout), read(process.stderr, row.stderr))
        code = await process.wait()
        if not ready.done():
            ready.set_exception(RuntimeError(f"the agent ended with {code}: {' '.join(row.stderr[-3:])}"))
        if row.is_live:
            await self._reap(row, row.exit_code or code, row.output)

    async def _initial(self, row: Row, description: str) -> None:
        result = await self.execute(row, wire.TaskRequest(task_id=f"initial-{row.pid}", description=description))
        row.exit_code, row.output = result.result.exit_code, result.result.output
        if row.request.role == wire.ROLE_TASK and row.os_process is None:
            await self._reap(row, row.exit_code, row.output)

    async def end(self, row: Row, reason: wire.ShutdownReason.ValueType, grace: int) -> None:
        if row.stub is not None and row.os_process is not None and row.is_live:
            with contextlib.suppress(grpc.aio.AioRpcError):
                request = wire.ShutdownRequest(reason=reason, grace_period_seconds=grace)
                answer = await row.stub.Shutdown(request, timeout=grace + 2)
                row.snapshot = answer.state_snapshot
                if answer.HasField("partial_result"):
                    row.exit_code, row.output = answer.partial_result.exit_code, answer.partial_result.output
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(row.ended.wait(), grace + 3)
            if row.is_live:
                row.os_process.kill()
                await row.ended.wait()
        elif row.is_live:
            await self._reap(row, 0, "")

    async def _reap(self, row: Row, code: int, output: str) -> None:
        row.exit_code, row.output, row.state = code, output, wire.STATE_ZOMBIE
        if row.channel is not None:
            await row.channel.close()
        row.ended.set()
        await self.note("removed", row)

    def children(self, pid: int, recursive: bool) -> list[Row]:
        direct = [row for row in self.rows.values() if row.ppid == pid]
        deeper = [one for row in direct for one in self.children(row.pid, True)] if recursive else []
        return direct + deeper

    # Tasks

    async def execute(self, row: Row, task: wire.TaskRequest) -> core_pb2.ExecuteTaskResponse:
        if row.stub is None or not row.is_live:
            return core_pb2.ExecuteTaskResponse(error=f"process {row.pid} runs no program")
        inputs: asyncio.Queue[wire.ExecuteInput | None] = asyncio.Queue()
        inputs.put_nowait(wire.ExecuteInput(task=task))

        async def feed() -> AsyncIterator[wire.ExecuteInput]:
            while (one := await inputs.get()) is not None:
                yield one

        row.state, row.current_task = wire.STATE_RUNNING, task.task_id
        answer = core_pb2.ExecuteTaskResponse(error="the agent ended without a result")
        try:
            async for report in row.stub.Execute(feed()):
                self.progress.append(report)
                if report.type == wire.PROGRESS_SYSCALL:
                    for call in report.syscalls:
                        self._begin(self._answer_call(row, call, inputs))
                elif report.type == wire.PROGRESS_NEEDS_INPUT:
                    inputs.put_nowait(wire.ExecuteInput(user_input=self.answer_question(report.message)))
                elif report.type == wire.PROGRESS_COMPLETED:
                    answer = core_pb2.ExecuteTaskResponse(success=True, result=report.result)
                elif report.type == wire.PROGRESS_FAILED:
                    answer = core_pb2.ExecuteTaskResponse(result=report.result, error=f"task failed: {report.message}")
        except grpc.aio.AioRpcError as error:
            answer = core_pb2.ExecuteTaskResponse(error=f"{error.code().name}: {error.details()}")
        finally:
            inputs.put_nowait(None)
            row.state, row.current_task = wire.STATE_IDLE, ""
        if row.request.role == wire.ROLE_TASK:
            row.exit_code, row.output = answer.result.exit_code, answer.result.output
        return answer

    async def _answer_call(self, row: Row, call: wire.SystemCall, inputs: asyncio.Queue[wire.ExecuteInput | None]) -> None:
        result = await self.call(row, call)
        inputs.put_nowait(wire.ExecuteInput(syscall_result=result))

    async def call(self, row: Row, call: wire.SystemCall) -> wire.SyscallResult:
        """One call of a task, answered as the method of `CoreService` would."""
        name = call.WhichOneof("call")
        self.calls_over_streams.append(name or "")
        result = wire.SyscallResult(call_id=call.call_id)
        if name == "spawn":
            result.spawn.CopyFrom(await self.spawn(row, call.spawn))
        elif name == "kill":
            result.kill.CopyFrom(await self.kill(row, call.kill))
        elif name == "send":
            result.send.CopyFrom(await self.send(row, call.send))
        elif name == "store":
            result.store.CopyFrom(self.store(row, call.store))
        elif name == "get_artifact":
            result.get_artifact.CopyFrom(self.get_artifact(row, call.get_artifact))
        elif name == "escalate":
            result.escalate.CopyFrom(self.escalate(row, call.escalate))
        elif name == "log":
            self.logged.append((row.pid, call.log))
            result.log.SetInParent()
        elif name == "execute_on":
            target = self.rows.get(call.execute_on.target_pid)
            if target is None or target.ppid != row.pid:
                result.execute_on.error = "can only execute_on own children"
            else:
                done = await self.execute(target, call.execute_on.task)
                result.execute_on.CopyFrom(wire.ExecuteOnResponse(success=done.success, result=done.result, error=done.error))
        elif name == "wait_child":
            result.wait_child.CopyFrom(await self.wait(row, call.wait_child))
        elif name == "list_siblings":
            result.list_siblings.CopyFrom(self.siblings(row))
        return result

    async def kill(self, row: Row, request: wire.KillRequest) -> wire.KillResponse:
        target = self.rows.get(request.target_pid)
        if target is None or target.ppid != row.pid:
            return wire.KillResponse(error="can only kill own children")
        branch = [target, *(self.children(target.pid, True) if request.recursive else [])]
        live = [one for one in branch if one.is_live]
        await asyncio.gather(*(self.end(one, request.reason, request.grace_period_seconds or 5) for one in live))
        return wire.KillResponse(success=True, killed_pids=[one.pid for one in live])

    async def wait(self, row: Row, request: wire.WaitChildRequest) -> wire.WaitChildResponse:
        target = self.rows.get(request.target_pid)
        if target is None or target.ppid != row.pid:
            return wire.WaitChildResponse(error="can only wait for own children")
        try:
            await asyncio.wait_for(target.ended.wait(), request.timeout_seconds or None)
        except TimeoutError:
            return wire.WaitChildResponse(error=f"process {target.pid} still runs after {request.timeout_seconds} s")
        return wire.WaitChildResponse(success=True, pid=target.pid, exit_code=target.exit_code, output=target.output)

    def siblings(self, row: Row) -> wire.ListSiblingsResponse:
        others = [one for one in self.children(row.ppid, False) if one.pid != row.pid]
        return wire.ListSiblingsResponse(
            siblings=[
                wire.SiblingInfo(pid=one.pid, name=one.request.name, role=ROLES.word(one.request.role), state=STATES.word(one.state))
                for one in others
            ]
        )

    # Messages and artifacts

    async def send(self, row: Row, request: wire.SendMessageRequest) -> wire.SendMessageResponse:
        target = self.rows.get(request.to_pid)
        if row.request.role == wire.ROLE_TASK and request.to_pid != row.ppid:
            return wire.SendMessageResponse(error="send denied: a task speaks to its parent only")
        if not request.to_queue and (target is None or not target.is_live):
            return wire.SendMessageResponse(error=f"process {request.to_pid} not found")
        message = wire.AgentMessage(
            message_id=f"msg-{self._next('msg')}",
            from_pid=row.pid,
            from_name=row.request.name,
            type=request.type,
            priority=request.priority,
            payload=request.payload,
            timestamp=int(time.time()),
            requires_ack=request.requires_ack,
            reply_to=request.reply_to,
            relation=wire.REL_SYSTEM,
        )
        if target is not None:
            relations = ((row.pid == target.ppid, wire.REL_PARENT), (row.ppid == target.pid, wire.REL_CHILD))
            message.relation = next((relation for holds, relation in relations if holds), wire.REL_SIBLING)
        await self.note("message_sent", row, message=request.type)
        if target is None:
            self.queues[request.to_queue].put_nowait(message)
        elif target.stub is None:
            target.inbox.append(message)
        else:
            self._begin(self._deliver(target, message))
        return wire.SendMessageResponse(delivered=True, message_id=message.message_id)

    async def _deliver(self, target: Row, message: wire.AgentMessage) -> None:
        assert target.stub is not None
        with contextlib.suppress(grpc.aio.AioRpcError):
            await target.stub.DeliverMessage(message, timeout=10)

    def store(self, row: Row, request: wire.StoreArtifactRequest) -> wire.StoreArtifactResponse:
        if row.request.role == wire.ROLE_TASK:
            return wire.StoreArtifactResponse(error="store denied to the role task")
        known = self.artifacts.get(request.key)
        if known is not None and known[2] != row.pid:
            return wire.StoreArtifactResponse(error=f"`{request.key}` belongs to process {known[2]}")
        artifact_id = f"art-{self._next('art')}"
        self.artifacts[request.key] = (artifact_id, request, row.pid)
        return wire.StoreArtifactResponse(success=True, artifact_id=artifact_id)

    def visible(self, row: Row, owner: int, visibility: int) -> bool:
        if visibility == wire.VIS_PRIVATE:
            return row.pid == owner
        if visibility == wire.VIS_SUBTREE:
            return row.pid == owner or any(child.pid == row.pid for child in self.children(owner, True))
        return True

    def get_artifact(self, row: Row, request: wire.GetArtifactRequest) -> wire.GetArtifactResponse:
        for key, (artifact_id, stored, owner) in self.artifacts.items():
            if (request.key or key) == key and (request.artifact_id or artifact_id) == artifact_id:
                if not self.visible(row, owner, stored.visibility):
                    break
                return wire.GetArtifactResponse(
                    found=True, content=stored.content, content_type=stored.content_type, stored_by_pid=owner, stored_at=1
                )
        return wire.GetArtifactResponse(error=f"artifact `{request.key or request.artifact_id}` not found")

    def escalate(self, row: Row, request: wire.EscalateRequest) -> wire.EscalateResponse:
        self.escalations.append((row.pid, request))
        return wire.EscalateResponse(received=True, handled_by_pid=row.ppid, response="noted")

    # Odds and ends

    def info(self, row: Row) -> core_pb2.ProcessInfo:
        return core_pb2.ProcessInfo(
            pid=row.pid,
            ppid=row.ppid,
            user=row.user,
            name=row.request.name,
            role=row.request.role,
            cognitive_tier=row.request.cognitive_tier,
            model=row.request.model,
            state=row.state,
            vps="vps1",
            child_count=len([one for one in self.children(row.pid, False) if one.is_live]),
            started_at=int(row.started),
            current_task_id=row.current_task,
            runtime_addr=f"localhost:{row.port}" if row.port else "",
        )

    async def note(self, type: str, row: Row, message: str = "") -> None:
        async with self.new_event:
            self.history.append(
                core_pb2.ProcessEvent(
                    seq=len(self.history) + 1,
                    timestamp_ms=int(time.time() * 1000),
                    type=type,
                    pid=row.pid,
                    ppid=row.ppid,
                    name=row.request.name,
                    role=ROLES.word(row.request.role),
                    message=message,
                )
            )
            self.new_event.notify_all()

    def _next(self, what: str) -> int:
        self._counts[what] += 1
        return self._counts[what]

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
