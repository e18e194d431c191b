#!/usr/bin/env python3
"""An agent without the package's classes: it serves the contract with generated code alone, as a program in any language would."""

from __future__ import annotations

import asyncio
import os
import sys

import grpc
import grpc.aio
from skep.wire import agent_pb2 as wire
from skep.wire import agent_pb2_grpc, core_pb2_grpc


def child(name: str) -> wire.SpawnRequest:
    return wire.SpawnRequest(name=name, role=wire.ROLE_WORKER, cognitive_tier=wire.COG_OPERATIONAL)


class ByHand(agent_pb2_grpc.AgentServiceServicer):
    def __init__(self) -> None:
        self.pid = 0
        self.ended = asyncio.Event()

    async def Init(self, request, context):
        self.pid = request.pid
        return wire.InitResponse(ready=True)

    async def Execute(self, inputs, context):
        task = (await anext(aiter(inputs))).task
        result = wire.TaskResult(exit_code=3, output=task.description.upper())
        if task.description == "spawn":
            call = wire.SystemCall(call_id="1", spawn=child("by-stream"))
            yield wire.TaskProgress(task_id=task.task_id, type=wire.PROGRESS_SYSCALL, syscalls=[call])
            answer = (await anext(aiter(inputs))).syscall_result
            assert answer.call_id == "1" and answer.spawn.success, answer
            await self.spawn_by_core()
            result = wire.TaskResult(output="both")
        yield wire.TaskProgress(task_id=task.task_id, type=wire.PROGRESS_COMPLETED, result=result)

    async def spawn_by_core(self) -> None:
        metadata = (("x-hivekernel-pid", str(self.pid)),)
        async with grpc.aio.insecure_channel(os.environ["HIVEKERNEL_CORE"]) as channel:
            answer = await core_pb2_grpc.CoreServiceStub(channel).SpawnChild(child("by-core"), metadata=metadata)
            assert answer.success, answer

    async def Shutdown(self, request, context):
        self.ended.set()
        return wire.ShutdownResponse()


async def main() -> None:
    agent = ByHand()
    server = grpc.aio.server()
    agent_pb2_grpc.add_AgentServiceServicer_to_server(agent, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"READY {port}\n")
    sys.stdout.flush()
    await agent.ended.wait()
    await server.stop(0.2)


asyncio.run(main())
