"""The names of HiveKernel's Python SDK, on top of `skep`: an agent that was written for it runs here with its imports unchanged.

It covers what agents are written with: the base class, its types, calls inside and outside a task, the model client, the runner and
the messages of the contract. HiveKernel's ready-made agents (queen, maid, orchestrator and others) are not part of it.
"""

from hivekernel_sdk import agent_pb2, agent_pb2_grpc, core_pb2, core_pb2_grpc
from hivekernel_sdk.agent import HiveAgent
from hivekernel_sdk.client import CoreClient
from hivekernel_sdk.llm import LLMClient
from hivekernel_sdk.llm_agent import LLMAgent
from hivekernel_sdk.syscall import SyscallContext
from hivekernel_sdk.types import (
    ACK_ACCEPTED,
    ACK_ESCALATE,
    ACK_QUEUED,
    ACK_REJECTED,
    AgentConfig,
    Message,
    MessageAck,
    ResourceUsage,
    Task,
    TaskResult,
)

__all__ = [
    "ACK_ACCEPTED",
    "ACK_ESCALATE",
    "ACK_QUEUED",
    "ACK_REJECTED",
    "AgentConfig",
    "CoreClient",
    "HiveAgent",
    "LLMAgent",
    "LLMClient",
    "Message",
    "MessageAck",
    "ResourceUsage",
    "SyscallContext",
    "Task",
    "TaskResult",
    "agent_pb2",
    "agent_pb2_grpc",
    "core_pb2",
    "core_pb2_grpc",
]
