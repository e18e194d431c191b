"""A small kernel for tests: `CoreService` with real agent processes, in memory.

It conforms to what the contract suite asks, and nothing more: no journal, no policy, no rooms. The same suite runs against the
real kernel (`tests/contract/conftest.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
from small_tree import KING, OPTIONS, Row, SmallTree

from skep.core import PID_HEADER, SECRET_HEADER
from skep.wire import agent_pb2 as wire
from skep.wire import core_pb2, core_pb2_grpc

Context = grpc.aio.ServicerContext[Any, Any]


class SmallKernel(SmallTree, core_pb2_grpc.CoreServiceServicer):
    """The methods of the contract over the tree."""

    def __init__(self, environment: dict[str, str] | None = None, require_secret: bool = False) -> None:
        super().__init__(environment)
        self.require_secret = require_secret
        self._server = grpc.aio.server(options=OPTIONS)

    async def start(self, address: str = "127.0.0.1:0") -> None:
        core_pb2_grpc.add_CoreServiceServicer_to_server(self, self._server)
        port = self._server.add_insecure_port(address)
        self.address = address if address.startswith("unix:") else f"127.0.0.1:{port}"
        await self._server.start()

    async def stop(self) -> None:
        await self.end_all()
        await self._server.stop(0)

    async def caller(self, context: Context) -> Row:
        """Who asks, or the status that the contract has for nobody."""
        headers = dict(context.invocation_metadata() or ())
        said = headers.get(PID_HEADER)
        if said is None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, f"missing {PID_HEADER}")
        if not str(said).isdigit():
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"invalid pid: {said!s}")
        row = self.rows.get(int(str(said)))
        if row is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"process {said!s} not found")
            raise AssertionError
        if self.require_secret and row.pid != KING and headers.get(SECRET_HEADER) != row.secret:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the secret is not that of the process")
        return row

    async def SpawnChild(self, request: wire.SpawnRequest, context: Context) -> wire.SpawnResponse:
        self.calls_over_core.append("spawn")
        return await self.spawn(await self.caller(context), request)

    async def KillChild(self, request: wire.KillRequest, context: Context) -> wire.KillResponse:
        self.calls_over_core.append("kill")
        return await self.kill(await self.caller(context), request)

    async def GetProcessInfo(self, request: core_pb2.ProcessInfoRequest, context: Context) -> core_pb2.ProcessInfo:
        row = self.rows.get(request.pid) if request.pid else await self.caller(context)
        if row is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"process {request.pid} not found")
            raise AssertionError
        return self.info(row)

    async def ListChildren(self, request: core_pb2.ListChildrenRequest, context: Context) -> core_pb2.ListChildrenResponse:
        row = await self.caller(context)
        return core_pb2.ListChildrenResponse(children=[self.info(one) for one in self.children(row.pid, request.recursive)])

    async def SendMessage(self, request: wire.SendMessageRequest, context: Context) -> wire.SendMessageResponse:
        self.calls_over_core.append("send")
        return await self.send(await self.caller(context), request)

    async def Subscribe(self, request: core_pb2.SubscribeRequest, context: Context) -> AsyncIterator[wire.AgentMessage]:
        await self.caller(context)
        queue = self.queues[request.queue]
        while True:
            message = await queue.get()
            if not request.type_filter or request.type_filter == message.type:
                yield message

    async def StoreArtifact(self, request: wire.StoreArtifactRequest, context: Context) -> wire.StoreArtifactResponse:
        self.calls_over_core.append("store")
        return self.store(await self.caller(context), request)

    async def GetArtifact(self, request: wire.GetArtifactRequest, context: Context) -> wire.GetArtifactResponse:
        self.calls_over_core.append("get_artifact")
        return self.get_artifact(await self.caller(context), request)

    async def ListArtifacts(self, request: core_pb2.ListArtifactsRequest, context: Context) -> core_pb2.ListArtifactsResponse:
        row = await self.caller(context)
        return core_pb2.ListArtifactsResponse(
            artifacts=[
                core_pb2.ArtifactMeta(
                    artifact_id=artifact_id,
                    key=key,
                    content_type=stored.content_type,
                    size_bytes=len(stored.content),
                    stored_by_pid=owner,
                    stored_at=1,
                )
                for key, (artifact_id, stored, owner) in self.artifacts.items()
                if key.startswith(request.prefix) and request.stored_by_pid in (0, owner) and self.visible(row, owner, stored.visibility)
            ]
        )

    async def GetResourceUsage(self, request: core_pb2.ResourceUsageRequest, context: Context) -> core_pb2.ResourceUsage:
        row = await self.caller(context)
        live = [child for child in self.children(row.pid, False) if child.is_live]
        return core_pb2.ResourceUsage(
            tokens_remaining=row.tokens_remaining, children_active=len(live), children_max=row.request.limits.max_children or 10
        )

    async def RequestResources(self, request: core_pb2.ResourceRequest, context: Context) -> core_pb2.ResourceResponse:
        row = await self.caller(context)
        parent = self.rows.get(row.ppid)
        if parent is None or parent.tokens_remaining < request.amount:
            return core_pb2.ResourceResponse(reason="the parent has less")
        parent.tokens_remaining -= request.amount
        row.tokens_remaining += request.amount
        return core_pb2.ResourceResponse(granted=True, granted_amount=request.amount)

    async def Escalate(self, request: wire.EscalateRequest, context: Context) -> wire.EscalateResponse:
        self.calls_over_core.append("escalate")
        return self.escalate(await self.caller(context), request)

    async def Log(self, request: wire.LogRequest, context: Context) -> wire.LogResponse:
        self.calls_over_core.append("log")
        row = await self.caller(context)
        self.logged.append((row.pid, request))
        await self.note("log", row, message=request.message)
        return wire.LogResponse()

    async def ReportMetric(self, request: core_pb2.MetricRequest, context: Context) -> core_pb2.MetricResponse:
        self.metrics.append(((await self.caller(context)).pid, request))
        return core_pb2.MetricResponse()

    async def ExecuteTask(self, request: core_pb2.ExecuteTaskRequest, context: Context) -> core_pb2.ExecuteTaskResponse:
        row = self.rows.get(request.target_pid)
        if row is None:
            return core_pb2.ExecuteTaskResponse(error=f"process {request.target_pid} not found")
        task = wire.TaskRequest(
            task_id=f"ext-{request.target_pid}-{request.description[:20]}",
            description=request.description,
            params=request.params,
            timeout_seconds=max(0, request.timeout_seconds),
        )
        return await self.execute(row, task)

    async def SubscribeEvents(self, request: core_pb2.SubscribeEventsRequest, context: Context) -> AsyncIterator[core_pb2.ProcessEvent]:
        seen = request.since_seq or len(self.history)
        while True:
            async with self.new_event:
                while len(self.history) <= seen:
                    await self.new_event.wait()
            fresh = self.history[seen:]
            seen += len(fresh)
            for event in fresh:
                yield event

    async def AddCron(self, request: core_pb2.AddCronRequest, context: Context) -> core_pb2.AddCronResponse:
        if len(request.cron_expression.split()) not in (5, 6):
            return core_pb2.AddCronResponse(error=f"`{request.cron_expression}` is no cron expression")
        cron_id = f"cron-{self._next('cron')}"
        self.cron[cron_id] = core_pb2.CronEntryProto(
            id=cron_id,
            name=request.name,
            cron_expression=request.cron_expression,
            action=request.action,
            target_pid=request.target_pid,
            execute_description=request.execute_description,
            execute_params=request.execute_params,
            enabled=True,
        )
        return core_pb2.AddCronResponse(cron_id=cron_id)

    async def RemoveCron(self, request: core_pb2.RemoveCronRequest, context: Context) -> core_pb2.RemoveCronResponse:
        if self.cron.pop(request.cron_id, None) is None:
            return core_pb2.RemoveCronResponse(error=f"`{request.cron_id}` not found")
        return core_pb2.RemoveCronResponse(ok=True)

    async def ListCron(self, request: core_pb2.ListCronRequest, context: Context) -> core_pb2.ListCronResponse:
        return core_pb2.ListCronResponse(entries=list(self.cron.values()))

    async def ListInbox(self, request: core_pb2.ListInboxRequest, context: Context) -> core_pb2.ListInboxResponse:
        row = self.rows[request.pid] if request.pid else await self.caller(context)
        return core_pb2.ListInboxResponse(messages=row.inbox, total=len(row.inbox))

    async def ListSiblings(self, request: wire.ListSiblingsRequest, context: Context) -> wire.ListSiblingsResponse:
        self.calls_over_core.append("list_siblings")
        return self.siblings(await self.caller(context))

    async def WaitChild(self, request: wire.WaitChildRequest, context: Context) -> wire.WaitChildResponse:
        self.calls_over_core.append("wait_child")
        return await self.wait(await self.caller(context), request)
