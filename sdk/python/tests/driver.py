"""Drives one agent as a kernel does, over a real gRPC connection, with every message in the test's own hands."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc.aio

from skep.agent import Agent, BaseAgent
from skep.core import CHANNEL_OPTIONS, Core
from skep.runner import SERVER_OPTIONS
from skep.service import AgentServer
from skep.values import Task, TaskResult
from skep.wire import agent_pb2 as wire
from skep.wire import agent_pb2_grpc

SECONDS = 10.0
"""Longer than anything here takes; a test that hangs fails by it."""


class Driver:
    """The kernel's side of one agent."""

    def __init__(self, agent: BaseAgent, service: AgentServer, stub: agent_pb2_grpc.AgentServiceStub) -> None:
        self.agent = agent
        self.service = service
        self.stub = stub

    async def init(self, role: wire.AgentRole.ValueType = wire.ROLE_WORKER, pid: int = 7, **named: Any) -> wire.InitResponse:
        return await self.stub.Init(wire.InitRequest(pid=pid, ppid=1, user="leo", role=role, **named), timeout=SECONDS)

    async def beat(self) -> wire.HeartbeatResponse:
        return await self.stub.Heartbeat(wire.HeartbeatRequest(timestamp=1), timeout=SECONDS)

    def execute(self, description: str = "", task_id: str = "t-1", **named: Any) -> Stream:
        stream = Stream(self.stub)
        stream.give(wire.ExecuteInput(task=wire.TaskRequest(task_id=task_id, description=description, **named)))
        return stream

    async def run(self, description: str = "", **named: Any) -> wire.TaskProgress:
        """Runs a task that makes no calls, and returns its last report."""
        return (await self.execute(description, **named).rest())[-1]

    async def deliver(self, message_id: str, **named: Any) -> wire.MessageAck:
        return await self.stub.DeliverMessage(wire.AgentMessage(message_id=message_id, **named), timeout=SECONDS)


Work = Callable[["Worker", Task], Awaitable[TaskResult]]


class Worker(Agent):
    """Does what the test says."""

    def __init__(self, work: Work) -> None:
        self.work = work

    async def handle_task(self, task: Task) -> TaskResult:
        return await self.work(self, task)


class Stream:
    """One `Execute` stream."""

    def __init__(self, stub: agent_pb2_grpc.AgentServiceStub) -> None:
        self._inputs: asyncio.Queue[wire.ExecuteInput | None] = asyncio.Queue()
        self.call = stub.Execute(self._feed(), timeout=SECONDS)
        self._reports = aiter(self.call)

    def give(self, one: wire.ExecuteInput) -> None:
        self._inputs.put_nowait(one)

    def result(self, call_id: str, **result: Any) -> None:
        self.give(wire.ExecuteInput(syscall_result=wire.SyscallResult(call_id=call_id, **result)))

    def close(self) -> None:
        """Ends the kernel's half of the stream."""
        self._inputs.put_nowait(None)

    async def next(self) -> wire.TaskProgress:
        return await anext(self._reports)

    async def rest(self) -> list[wire.TaskProgress]:
        return [report async for report in self._reports]

    async def _feed(self) -> AsyncIterator[wire.ExecuteInput]:
        while (one := await self._inputs.get()) is not None:
            yield one


@contextlib.asynccontextmanager
async def driven(agent: BaseAgent, core: Core | None = None) -> AsyncIterator[Driver]:
    """Serves an agent on a port of its own and connects to it."""
    service = AgentServer(agent)
    agent._skep.core = core
    server = grpc.aio.server(options=SERVER_OPTIONS)
    agent_pb2_grpc.add_AgentServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL_OPTIONS) as channel:
        yield Driver(agent, service, agent_pb2_grpc.AgentServiceStub(channel))
    await server.stop(0)


async def until(holds: Any) -> None:
    """Waits until a condition holds; the test's own deadline ends what never does."""
    async with asyncio.timeout(SECONDS):
        while not holds():
            await asyncio.sleep(0.005)
