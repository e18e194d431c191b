"""How a call of an agent reaches the kernel: over the stream of the task that it works on, or over `CoreService`.

Both take the same `SystemCall` and give the same `SyscallResult`, so an agent's code is the same inside and outside a task.
"""

from __future__ import annotations

from typing import Protocol

from google.protobuf.message import Message as WireMessage

from skep.limits import MESSAGE_BYTES_MAX
from skep.wire import agent_pb2 as wire


class SyscallError(RuntimeError):
    """The kernel refused a call, or it did not reach the kernel.

    `call` is the call's name, `reason` is what the kernel said, `code` is the gRPC status where there is one (`UNAVAILABLE`).
    """

    def __init__(self, call: str, reason: str, code: str | None = None) -> None:
        super().__init__(f"{call} failed: {reason}")
        self.call = call
        self.reason = reason
        self.code = code


class Route(Protocol):
    """A way to the kernel."""

    async def perform(self, call: wire.SystemCall) -> wire.SyscallResult:
        """Makes one call and returns what came of it. A refusal by the kernel is inside the result."""
        ...


def call_name(call: wire.SystemCall) -> str:
    """What the call is: `spawn`, `kill` and so on."""
    name = call.WhichOneof("call")
    if name is None:
        raise ValueError("the call is empty")
    return name


def check_size(what: str, message: WireMessage) -> None:
    """Refuses a message that the kernel would not read; sent, it would end the task's stream and not only this call."""
    size = message.ByteSize()
    if size > MESSAGE_BYTES_MAX:
        raise SyscallError(what, f"the message has {size} bytes, more than {MESSAGE_BYTES_MAX}", "RESOURCE_EXHAUSTED")
