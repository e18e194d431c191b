"""Agents for the Skep kernel.

An agent is a class; the kernel runs it as a process of its tree:

    from skep import Agent, Task, TaskResult

    class Greeter(Agent):
        async def handle_task(self, task: Task) -> TaskResult:
            return TaskResult(output=f"hello, {task.description}")
"""

from skep.agent import Agent
from skep.core import Core
from skep.names import ACK_ACCEPTED, ACK_ESCALATE, ACK_QUEUED, ACK_REJECTED, Ack
from skep.route import SyscallError
from skep.streams import ByteStream
from skep.values import (
    AgentConfig,
    Artifact,
    ArtifactInfo,
    ChildExit,
    GrantedTool,
    Limits,
    Message,
    MessageAck,
    ResourceUsage,
    Schedule,
    Sibling,
    Task,
    TaskResult,
)

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentConfig",
    "Task",
    "TaskResult",
    "Message",
    "MessageAck",
    "Ack",
    "ACK_ACCEPTED",
    "ACK_QUEUED",
    "ACK_REJECTED",
    "ACK_ESCALATE",
    "Artifact",
    "ArtifactInfo",
    "ChildExit",
    "GrantedTool",
    "Limits",
    "ResourceUsage",
    "Schedule",
    "Sibling",
    "Core",
    "ByteStream",
    "SyscallError",
    "__version__",
]
