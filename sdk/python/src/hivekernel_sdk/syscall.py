"""What HiveKernel's agents are given beside a task: the calls of that task, with its names and its return values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from skep.agent import BaseAgent
from skep.names import VISIBILITIES, Level, Priority, Role, Runtime, Severity, Tier
from skep.route import SyscallError
from skep.values import Limits, Sibling, TaskResult
from skep.wire import agent_pb2 as wire


class SyscallContext:
    """The calls of one task. They go over its stream for as long as it runs."""

    def __init__(self, agent: BaseAgent, task_id: str) -> None:
        self._agent = agent
        self._task_id = task_id

    @property
    def task_id(self) -> str:
        return self._task_id

    async def spawn(
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
        return await self._agent.spawn(
            name,
            cast("Role", role),
            cast("Tier", cognitive_tier),
            system_prompt,
            tools,
            model,
            initial_task,
            cast("Runtime", runtime_type),
            Limits(**limits) if limits else None,
            agent=runtime_image,
        )

    async def kill(self, pid: int, recursive: bool = True) -> list[int]:
        return await self._agent.kill(pid, recursive)

    async def send(
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
        return await self._agent.send(
            to_pid or None, to_queue or None, type, payload, cast("Priority", priority), requires_ack, ttl, reply_to
        )

    async def store_artifact(self, key: str, content: bytes, content_type: str = "text/plain", visibility: int = 3) -> str:
        return await self._agent.store(key, content, VISIBILITIES.word(visibility), content_type)

    async def get_artifact(self, key: str = "", artifact_id: str = "") -> wire.GetArtifactResponse:
        answer = await self._agent._artifact(key, artifact_id)  # noqa: SLF001  the same distribution
        if not answer.found:
            raise SyscallError("get_artifact", answer.error or "not found")
        return answer

    async def escalate(self, issue: str, severity: str = "warning", auto_propagate: bool = True) -> str:
        return await self._agent.escalate(issue, cast("Severity", severity), auto_propagate)

    async def log(self, level: str, message: str, **fields: object) -> None:
        await self._agent.log(cast("Level", level), message, **fields)

    async def execute_on(self, pid: int, description: str, params: Mapping[str, str] | None = None, timeout_seconds: int = 0) -> TaskResult:
        return await self._agent.execute_on(pid, description, params, timeout_seconds)

    async def wait_child(self, pid: int, timeout_seconds: int = 60) -> dict[str, int | str]:
        ended = await self._agent.wait_child(pid, timeout_seconds)
        return {"pid": ended.pid, "exit_code": ended.exit_code, "output": ended.output}

    async def list_siblings(self) -> list[Sibling]:
        return await self._agent.list_siblings()

    async def report_progress(self, message: str, percent: float = 0.0) -> None:
        await self._agent.report_progress(message, percent)
