"""The values of HiveKernel's SDK: those of `skep`."""

from skep.names import ACK_ACCEPTED, ACK_ESCALATE, ACK_QUEUED, ACK_REJECTED
from skep.values import AgentConfig, Message, MessageAck, ResourceUsage, Task, TaskResult

__all__ = [
    "ACK_ACCEPTED",
    "ACK_ESCALATE",
    "ACK_QUEUED",
    "ACK_REJECTED",
    "AgentConfig",
    "Message",
    "MessageAck",
    "ResourceUsage",
    "Task",
    "TaskResult",
]
