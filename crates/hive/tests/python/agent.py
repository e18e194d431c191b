"""An agent of the contract: says READY, checks every field that it is sent, and answers with every field set."""

import asyncio
import sys

import agent_pb2
import agent_pb2_grpc
import grpc
from filled import choices

FILLED = {name: choices(getattr(agent_pb2, name)) for name in agent_pb2.DESCRIPTOR.message_types_by_name}
CALLS = [field.name for field in agent_pb2.SystemCall.DESCRIPTOR.oneofs_by_name["call"].fields]


async def check(context, request):
    expected = FILLED[request.DESCRIPTOR.name][0]
    if request != expected:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"got\n{request}instead of\n{expected}")


class Agent(agent_pb2_grpc.AgentServiceServicer):
    def __init__(self, stopped):
        self.stopped = stopped

    async def Init(self, request, context):
        await check(context, request)
        return agent_pb2.InitResponse(ready=True)

    async def Heartbeat(self, request, context):
        await check(context, request)
        return FILLED["HeartbeatResponse"][0]

    async def Interrupt(self, request, context):
        await check(context, request)
        return FILLED["InterruptResponse"][0]

    async def DeliverMessage(self, request, context):
        await check(context, request)
        answer = agent_pb2.MessageAck()
        answer.CopyFrom(FILLED["MessageAck"][0])
        answer.message_id = request.message_id
        return answer

    async def Shutdown(self, request, context):
        expected = agent_pb2.ShutdownRequest(reason=agent_pb2.SHUTDOWN_USER_REQUEST, grace_period_seconds=3)
        if request != expected:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"got {request}instead of {expected}")
        self.stopped.set()
        return FILLED["ShutdownResponse"][0]

    async def Execute(self, inputs, context):
        progress = agent_pb2.TaskProgress
        first = await context.read()
        await check(context, first.task)
        task_id = first.task.task_id
        yield progress(task_id=task_id, type=agent_pb2.PROGRESS_UPDATE, message="a third", progress_percent=33.5)
        yield progress(task_id=task_id, type=agent_pb2.PROGRESS_UPDATE, message="who knows", progress_percent=-1)
        yield progress(task_id=task_id, type=agent_pb2.PROGRESS_LOG, message="a line")

        calls = [agent_pb2.SystemCall.FromString(call.SerializeToString()) for call in FILLED["SystemCall"]]
        for number, call in enumerate(calls):
            call.call_id = f"call-{number}"
        assert [call.WhichOneof("call") for call in calls] == CALLS, CALLS
        yield progress(task_id=task_id, type=agent_pb2.PROGRESS_SYSCALL, syscalls=calls)
        results = {}
        while len(results) < len(calls):
            result = (await context.read()).syscall_result
            results[result.call_id] = result
        for number, name in enumerate(CALLS):
            expected = agent_pb2.SyscallResult.FromString(FILLED["SyscallResult"][number].SerializeToString())
            expected.call_id = f"call-{number}"
            if results.get(expected.call_id) != expected or expected.WhichOneof("result") != name:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{name}: got\n{results}instead of\n{expected}")

        yield progress(task_id=task_id, type=agent_pb2.PROGRESS_NEEDS_INPUT, message="which one?")
        answer = (await context.read()).user_input
        if answer != "that one":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"was told `{answer}`")
        yield progress(task_id=task_id, type=agent_pb2.PROGRESS_COMPLETED, result=FILLED["TaskResult"][0])


async def main():
    stopped = asyncio.Event()
    server = grpc.aio.server()
    agent_pb2_grpc.add_AgentServiceServicer_to_server(Agent(stopped), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print("a line before")
    sys.stdout.write(f"READY {port}\n")
    sys.stdout.flush()
    await stopped.wait()
    print("a line behind", flush=True)
    await server.stop(grace=2)


asyncio.run(main())
