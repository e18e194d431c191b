"""HiveKernel's client of `CoreService`, by its names and return values. Also for programs that are no agents, such as dashboards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import grpc.aio

from skep.agent import BaseAgent
from skep.core import Core
from skep.names import LEVELS, PRIORITIES, ROLES, RUNTIMES, SEVERITIES, TIERS, VISIBILITIES
from skep.route import SyscallError
from skep.syscalls import NO_REASON
from skep.values import Limits, ResourceUsage
from skep.wire import agent_pb2 as wire
from skep.wire import core_pb2


class CoreClient:
    """The kernel's methods, for one pid."""

    def __init__(self, channel: grpc.aio.Channel | Core, pid: int | None = None) -> None:
        # A channel that the caller made has its address; the headers are ours.
        self._core = channel if isinstance(channel, Core) else Core("", pid or 0, channel=channel)

    @property
    def pid(self) -> int:
        return self._core.pid

    @pid.setter
    def pid(self, value: int) -> None:
        self._core.pid = value

    async def spawn_child(
        self,
        name: str,
        role: str,
        cognitive_tier: str,
        system_prompt: str = "",
        model: str = "",
        tools: Sequence[str] | None = None,
        initial_task: str = "",
        limits: Mapping[str, int] | None = None,
        runtime_image: str = "",
        runtime_type: str = "python",
    ) -> int:
        request = wire.SpawnRequest(
            name=name,
            role=ROLES.number(role),
            cognitive_tier=TIERS.number(cognitive_tier),
            system_prompt=system_prompt,
            model=model,
            tools=tools or [],
            initial_task=initial_task,
            limits=Limits(**limits).write() if limits else None,
            runtime_image=runtime_image,
            runtime_type=RUNTIMES.number(runtime_type),
        )
        answer = await self._core.unary("spawn", self._core.stub.SpawnChild, request)
        if not answer.success:
            raise SyscallError("spawn", answer.error or NO_REASON)
        return answer.child_pid

    async def kill_child(self, pid: int, recursive: bool = True) -> list[int]:
        request = wire.KillRequest(target_pid=pid, recursive=recursive)
        answer = await self._core.unary("kill", self._core.stub.KillChild, request)
        if not answer.success:
            raise SyscallError("kill", answer.error or NO_REASON)
        return list(answer.killed_pids)

    async def get_process_info(self, pid: int = 0) -> core_pb2.ProcessInfo:
        return await self._core.process_info(pid)

    async def list_children(self, recursive: bool = False) -> list[core_pb2.ProcessInfo]:
        return await self._core.list_children(recursive)

    async def list_siblings(self) -> list[dict[str, Any]]:
        answer = await self._core.unary("list_siblings", self._core.stub.ListSiblings, wire.ListSiblingsRequest())
        return [{"pid": one.pid, "name": one.name, "role": one.role, "state": one.state} for one in answer.siblings]

    async def wait_child(self, pid: int, timeout_seconds: int = 60) -> dict[str, Any]:
        request = wire.WaitChildRequest(target_pid=pid, timeout_seconds=timeout_seconds)
        answer = (await self._core.perform(wire.SystemCall(wait_child=request))).wait_child
        if not answer.success:
            raise SyscallError("wait_child", answer.error or NO_REASON)
        return {"pid": answer.pid, "exit_code": answer.exit_code, "output": answer.output}

    async def execute_task(
        self, target_pid: int, description: str, params: Mapping[str, str] | None = None, timeout_seconds: int = 120
    ) -> dict[str, Any]:
        answer = await self._core.execute_task(target_pid, description, params, timeout_seconds)
        if not answer.success:
            raise SyscallError("execute_task", answer.error or NO_REASON)
        result = answer.result
        return {
            "exit_code": result.exit_code,
            "output": result.output,
            "artifacts": dict(result.artifacts),
            "metadata": dict(result.metadata),
        }

    async def send_message(
        self,
        to_pid: int = 0,
        to_queue: str = "",
        type: str = "default",
        payload: bytes = b"",
        priority: str = "normal",
        requires_ack: bool = False,
        ttl: int = 0,
        reply_to: str = "",
    ) -> str:
        request = wire.SendMessageRequest(
            to_pid=to_pid,
            to_queue=to_queue,
            type=type,
            payload=payload,
            priority=PRIORITIES.number(priority),
            requires_ack=requires_ack,
            ttl_seconds=ttl,
            reply_to=reply_to,
        )
        answer = await self._core.unary("send", self._core.stub.SendMessage, request)
        if not answer.delivered:
            raise SyscallError("send", answer.error or NO_REASON)
        return answer.message_id

    async def store_artifact(self, key: str, content: bytes, content_type: str = "application/octet-stream", visibility: int = 3) -> str:
        request = wire.StoreArtifactRequest(
            key=key,
            content=content,
            content_type=content_type,
            visibility=VISIBILITIES.number(VISIBILITIES.word(visibility)),
        )
        answer = await self._core.unary("store", self._core.stub.StoreArtifact, request)
        if not answer.success:
            raise SyscallError("store", answer.error or NO_REASON)
        return answer.artifact_id

    async def get_artifact(self, key: str = "", artifact_id: str = "") -> wire.GetArtifactResponse:
        request = wire.GetArtifactRequest(key=key, artifact_id=artifact_id)
        answer = await self._core.unary("get_artifact", self._core.stub.GetArtifact, request)
        if not answer.found:
            raise SyscallError("get_artifact", answer.error or "not found")
        return answer

    async def list_artifacts(self, prefix: str = "") -> list[core_pb2.ArtifactMeta]:
        request = core_pb2.ListArtifactsRequest(prefix=prefix)
        return list((await self._core.unary("list_artifacts", self._core.stub.ListArtifacts, request)).artifacts)

    async def get_resource_usage(self) -> ResourceUsage:
        return await self._core.resource_usage()

    async def request_resources(self, resource_type: str = "tokens", amount: int = 0) -> dict[str, Any]:
        answer = await self._core.request_resources(resource_type, amount)
        return {"granted": answer.granted, "granted_amount": answer.granted_amount, "reason": answer.reason}

    async def escalate(self, issue: str, severity: str = "warning", auto_propagate: bool = True) -> str:
        request = wire.EscalateRequest(issue=issue, severity=SEVERITIES.number(severity), auto_propagate=auto_propagate)
        return (await self._core.unary("escalate", self._core.stub.Escalate, request, None)).response

    async def log(self, level: str, message: str, **fields: object) -> None:
        request = wire.LogRequest(level=LEVELS.number(level), message=message, fields={name: str(value) for name, value in fields.items()})
        await self._core.unary("log", self._core.stub.Log, request)

    async def report_metric(self, name: str, value: float, **labels: str) -> None:
        await self._core.report_metric(name, value, labels)

    async def add_cron(
        self,
        name: str,
        cron_expression: str,
        target_pid: int,
        description: str = "",
        params: Mapping[str, str] | None = None,
        action: str = "execute",
    ) -> str:
        return await self._core.add_cron(name, cron_expression, target_pid, description, params, action)

    async def remove_cron(self, cron_id: str) -> bool:
        await self._core.remove_cron(cron_id)
        return True

    async def list_cron(self) -> list[dict[str, Any]]:
        return [
            {
                "id": entry.id,
                "name": entry.name,
                "cron_expression": entry.cron_expression,
                "action": entry.action,
                "target_pid": entry.target_pid,
                "execute_description": entry.execute_description,
                "execute_params": dict(entry.execute_params),
                "enabled": entry.enabled,
            }
            for entry in await self._core.list_cron()
        ]


def client_of(agent: BaseAgent) -> CoreClient | None:
    """The client of an agent, once the runner has connected it."""
    core = agent._skep.core  # noqa: SLF001  the same distribution
    return CoreClient(core) if core is not None else None
