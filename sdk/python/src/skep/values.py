"""What agents are given and give back, as plain values, and how each goes over the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from skep.names import PRIORITIES, RELATIONS, Ack, Priority, Relation
from skep.wire import agent_pb2 as wire
from skep.wire import core_pb2


@dataclass(frozen=True)
class Limits:
    """What a process may use. 0 means that the kernel's default holds."""

    max_tokens_per_hour: int = 0
    max_context_tokens: int = 0
    max_children: int = 0
    max_concurrent_tasks: int = 0
    timeout_seconds: int = 0
    max_tokens_total: int = 0

    @staticmethod
    def read(limits: wire.ResourceLimits) -> Limits:
        return Limits(
            limits.max_tokens_per_hour,
            limits.max_context_tokens,
            limits.max_children,
            limits.max_concurrent_tasks,
            limits.timeout_seconds,
            limits.max_tokens_total,
        )

    def write(self) -> wire.ResourceLimits:
        return wire.ResourceLimits(
            max_tokens_per_hour=self.max_tokens_per_hour,
            max_context_tokens=self.max_context_tokens,
            max_children=self.max_children,
            max_concurrent_tasks=self.max_concurrent_tasks,
            timeout_seconds=self.timeout_seconds,
            max_tokens_total=self.max_tokens_total,
        )


@dataclass(frozen=True)
class GrantedTool:
    """A tool that the kernel lets this process use."""

    name: str
    description: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    allowed_paths: tuple[str, ...] = ()


@dataclass
class AgentConfig:
    """What the parent wrote about this process when it spawned it."""

    name: str = ""
    system_prompt: str = ""
    model: str = ""
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass
class Task:
    """One piece of work."""

    task_id: str = ""
    description: str = ""
    params: dict[str, str] = field(default_factory=dict)
    priority: Priority = "normal"
    timeout_seconds: int = 0
    context: bytes = b""
    parent_task_id: str = ""

    @property
    def inputs(self) -> dict[str, Any]:
        """The parameters, and those of the description where it is a JSON object, as an `initial_task` often is.

        A parameter wins over one of the same name in the description.
        """
        try:
            described = json.loads(self.description)
        except ValueError:
            described = None
        return {**(described if isinstance(described, dict) else {}), **self.params}

    @staticmethod
    def read(task: wire.TaskRequest) -> Task:
        return Task(
            task_id=task.task_id,
            description=task.description,
            params=dict(task.params),
            priority=PRIORITIES.word(task.priority),
            timeout_seconds=task.timeout_seconds,
            context=task.context,
            parent_task_id=task.parent_task_id,
        )


@dataclass
class TaskResult:
    """What came of a task. An exit code other than 0 means that it failed."""

    exit_code: int = 0
    output: str = ""
    artifacts: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def read(result: wire.TaskResult) -> TaskResult:
        return TaskResult(result.exit_code, result.output, dict(result.artifacts), dict(result.metadata))

    def write(self) -> wire.TaskResult:
        return wire.TaskResult(exit_code=self.exit_code, output=self.output, artifacts=self.artifacts, metadata=self.metadata)


@dataclass
class Message:
    """A message from another process."""

    message_id: str = ""
    from_pid: int = 0
    from_name: str = ""
    relation: Relation = "system"
    type: str = ""
    priority: Priority = "normal"
    payload: bytes = b""
    timestamp: int = 0
    requires_ack: bool = False
    reply_to: str = ""

    @staticmethod
    def read(message: wire.AgentMessage) -> Message:
        return Message(
            message_id=message.message_id,
            from_pid=message.from_pid,
            from_name=message.from_name,
            relation=RELATIONS.word(message.relation),
            type=message.type,
            priority=PRIORITIES.word(message.priority),
            payload=message.payload,
            timestamp=message.timestamp,
            requires_ack=message.requires_ack,
            reply_to=message.reply_to,
        )


@dataclass
class MessageAck:
    """What an agent answers to a message."""

    ACK_ACCEPTED: ClassVar[Ack] = Ack.ACCEPTED
    ACK_QUEUED: ClassVar[Ack] = Ack.QUEUED
    ACK_REJECTED: ClassVar[Ack] = Ack.REJECTED
    ACK_ESCALATE: ClassVar[Ack] = Ack.ESCALATE

    message_id: str = ""
    status: int = Ack.ACCEPTED
    reply: str = ""


@dataclass(frozen=True)
class ResourceUsage:
    """What this process has used and has left."""

    tokens_consumed: int = 0
    tokens_remaining: int = 0
    children_active: int = 0
    children_max: int = 0
    context_usage_percent: float = 0.0
    uptime_seconds: int = 0

    @staticmethod
    def read(usage: core_pb2.ResourceUsage) -> ResourceUsage:
        return ResourceUsage(
            usage.tokens_consumed,
            usage.tokens_remaining,
            usage.children_active,
            usage.children_max,
            usage.context_usage_percent,
            usage.uptime_seconds,
        )


@dataclass(frozen=True)
class Artifact:
    """A stored artifact with its content."""

    content: bytes
    content_type: str
    stored_by_pid: int
    stored_at: int


@dataclass(frozen=True)
class ArtifactInfo:
    """A stored artifact without its content."""

    artifact_id: str
    key: str
    content_type: str
    size_bytes: int
    stored_by_pid: int
    stored_at: int

    @staticmethod
    def read(meta: core_pb2.ArtifactMeta) -> ArtifactInfo:
        return ArtifactInfo(meta.artifact_id, meta.key, meta.content_type, meta.size_bytes, meta.stored_by_pid, meta.stored_at)


@dataclass(frozen=True)
class Sibling:
    """Another child of this process's parent."""

    pid: int
    name: str
    role: str
    state: str


@dataclass(frozen=True)
class ChildExit:
    """How a child ended."""

    pid: int
    exit_code: int
    output: str


@dataclass(frozen=True)
class Schedule:
    """When a process runs. With `keep_alive` it sleeps between its runs; without, each run is a new process."""

    cron: str
    keep_alive: bool = False
