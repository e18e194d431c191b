"""The kernel as an agent asks it: the client of `CoreService`.

Every call says the pid in its header. The header is no proof: the kernel knows a process by the door in its room, by the peer of
a unix socket, or, on TCP, by the secret that it gave this process alone.
**Invariant.** The secret goes to a loopback address only, and into no message of an error or a log.
"""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Protocol, TypeVar

import grpc
import grpc.aio

from skep.limits import CALL_SECONDS_MAX, RECEIVED_BYTES_MAX, WAIT_SECONDS_EXTRA
from skep.names import PRIORITIES, Priority
from skep.route import SyscallError, call_name, check_size
from skep.streams import ByteStream
from skep.values import ArtifactInfo, Message, ResourceUsage
from skep.wire import agent_pb2 as wire
from skep.wire import core_pb2, core_pb2_grpc

PID_HEADER: Final = "x-hivekernel-pid"
SECRET_HEADER: Final = "x-skep-secret"  # noqa: S105  the header's name

# A proxy of the environment is for the network, never for the kernel.
CHANNEL_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", RECEIVED_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
)

# gRPC would name the socket's path, percent-encoded, which servers refuse as no authority.
UNIX_AUTHORITY: Final = ("grpc.default_authority", "localhost")

Q = TypeVar("Q")
A = TypeVar("A")


class _Unary(Protocol[Q, A]):
    def __call__(self, request: Q, /, *, timeout: float | None, metadata: Any) -> grpc.aio.UnaryUnaryCall[Q, A]: ...


class _Stream(Protocol[Q, A]):
    def __call__(self, request: Q, /, *, metadata: Any) -> grpc.aio.UnaryStreamCall[Q, A]: ...


def target_of(address: str) -> str:
    """The address as gRPC wants it. `:50051` is this machine."""
    if address.startswith(":"):
        return f"127.0.0.1{address}"
    return address


def is_unix(address: str) -> bool:
    return address.startswith(("unix:", "unix-abstract:"))


def is_loopback(address: str) -> bool:
    """Whether the address is one of this machine, which no other machine can listen on."""
    host = target_of(address).rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Core:
    """A connection to the kernel that speaks for one process."""

    def __init__(self, address: str, pid: int = 0, secret: str | None = None, channel: grpc.aio.Channel | None = None) -> None:
        if secret and not is_unix(address) and not is_loopback(address):
            raise ValueError(f"the secret would be sent unencrypted to `{address}`; only loopback addresses get it")
        self.address = address
        self.pid = pid
        self._secret = secret if secret and not is_unix(address) else None
        self._channel = channel or self._connect()
        self.stub = core_pb2_grpc.CoreServiceStub(self._channel)

    def _connect(self, *more: tuple[str, int]) -> grpc.aio.Channel:
        own = (UNIX_AUTHORITY,) if is_unix(self.address) else ()
        return grpc.aio.insecure_channel(target_of(self.address), options=(*CHANNEL_OPTIONS, *own, *more))

    async def close(self) -> None:
        await self._channel.close()

    async def open_stream(self, pid: int, name: str = "bytes", wait_seconds: int | None = None) -> ByteStream:
        """Opens a stream of bytes to this process's parent or child, which must open it too."""
        return await ByteStream.open(self._connect, self.metadata, pid, name, wait_seconds)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The headers of every call."""
        pid = ((PID_HEADER, str(self.pid)),)
        return (*pid, (SECRET_HEADER, self._secret)) if self._secret else pid

    async def perform(self, call: wire.SystemCall) -> wire.SyscallResult:
        """Makes a call that could also go over a task's stream."""
        name = call_name(call)
        result = wire.SyscallResult(call_id=call.call_id)
        stub = self.stub
        if name == "spawn":
            result.spawn.CopyFrom(await self.unary(name, stub.SpawnChild, call.spawn))
        elif name == "kill":
            result.kill.CopyFrom(await self.unary(name, stub.KillChild, call.kill))
        elif name == "send":
            result.send.CopyFrom(await self.unary(name, stub.SendMessage, call.send))
        elif name == "store":
            result.store.CopyFrom(await self.unary(name, stub.StoreArtifact, call.store))
        elif name == "get_artifact":
            result.get_artifact.CopyFrom(await self.unary(name, stub.GetArtifact, call.get_artifact))
        elif name == "escalate":
            # Somebody may have to be asked, and a person answers when they answer.
            result.escalate.CopyFrom(await self.unary(name, stub.Escalate, call.escalate, None))
        elif name == "log":
            result.log.CopyFrom(await self.unary(name, stub.Log, call.log))
        elif name == "list_siblings":
            result.list_siblings.CopyFrom(await self.unary(name, stub.ListSiblings, call.list_siblings))
        elif name == "wait_child":
            seconds = call.wait_child.timeout_seconds
            result.wait_child.CopyFrom(await self.unary(name, stub.WaitChild, call.wait_child, waiting(seconds)))
        else:
            task = call.execute_on.task
            answer = await self.execute_task(call.execute_on.target_pid, task.description, task.params, task.timeout_seconds)
            result.execute_on.success = answer.success
            result.execute_on.error = answer.error
            result.execute_on.result.CopyFrom(answer.result)
        return result

    async def unary(self, name: str, method: _Unary[Q, A], request: Q, timeout: float | None = CALL_SECONDS_MAX) -> A:
        """Makes one call. A status that is not OK becomes a `SyscallError`."""
        check_size(name, request)  # type: ignore[arg-type]  # every request of the stubs is a protobuf message
        try:
            return await method(request, timeout=timeout, metadata=self.metadata)
        except grpc.aio.AioRpcError as error:
            raise refused(name, error) from None

    async def stream(self, name: str, method: _Stream[Q, A], request: Q) -> AsyncIterator[A]:
        """Reads a stream until the kernel or the caller ends it."""
        call = method(request, metadata=self.metadata)
        try:
            async for item in call:
                yield item
        except grpc.aio.AioRpcError as error:
            raise refused(name, error) from None
        finally:
            # The kernel keeps a subscription as long as its stream is open.
            call.cancel()

    async def process_info(self, pid: int = 0) -> core_pb2.ProcessInfo:
        """A row of the process table; 0 is this process."""
        request = core_pb2.ProcessInfoRequest(pid=pid)
        return await self.unary("process_info", self.stub.GetProcessInfo, request)

    async def list_children(self, recursive: bool = False) -> list[core_pb2.ProcessInfo]:
        """The rows of this process's children, or of its whole branch."""
        request = core_pb2.ListChildrenRequest(recursive=recursive)
        return list((await self.unary("list_children", self.stub.ListChildren, request)).children)

    async def subscribe(self, queue: str, type_filter: str = "", min_priority: Priority | None = None) -> AsyncIterator[Message]:
        """Messages of a named queue, as they come. Without a priority all of them: on the wire that is the absent field."""
        request = core_pb2.SubscribeRequest(queue=queue, type_filter=type_filter)
        if min_priority is not None:
            request.min_priority = PRIORITIES.number(min_priority)
        async for message in self.stream("subscribe", self.stub.Subscribe, request):
            yield Message.read(message)

    async def list_artifacts(self, prefix: str = "", stored_by_pid: int = 0) -> list[ArtifactInfo]:
        """The artifacts that this process may see."""
        request = core_pb2.ListArtifactsRequest(prefix=prefix, stored_by_pid=stored_by_pid)
        answer = await self.unary("list_artifacts", self.stub.ListArtifacts, request)
        return [ArtifactInfo.read(meta) for meta in answer.artifacts]

    async def resource_usage(self) -> ResourceUsage:
        """What this process has used and has left."""
        request = core_pb2.ResourceUsageRequest()
        return ResourceUsage.read(await self.unary("get_resources", self.stub.GetResourceUsage, request))

    async def request_resources(self, resource_type: str, amount: int, justification: str = "") -> core_pb2.ResourceResponse:
        """Asks the parent's budget for more. The answer may need a person."""
        request = core_pb2.ResourceRequest(resource_type=resource_type, amount=amount, justification=justification)
        return await self.unary("request_resources", self.stub.RequestResources, request, None)

    async def report_metric(self, name: str, value: float, labels: Mapping[str, str] | None = None) -> None:
        """Reports a number. `tokens_consumed` is a claim: the kernel only adds it, and not for agents that use its gateway."""
        request = core_pb2.MetricRequest(name=name, value=value, labels=dict(labels or {}))
        await self.unary("report_metric", self.stub.ReportMetric, request)

    async def execute_task(
        self, pid: int, description: str, params: Mapping[str, str] | None = None, timeout_seconds: int = 0
    ) -> core_pb2.ExecuteTaskResponse:
        """Gives a process a task and waits for its result."""
        request = core_pb2.ExecuteTaskRequest(
            target_pid=pid, description=description, params=dict(params or {}), timeout_seconds=timeout_seconds
        )
        return await self.unary("execute_on", self.stub.ExecuteTask, request, waiting(timeout_seconds))

    async def events(self, since_seq: int = 0) -> AsyncIterator[core_pb2.ProcessEvent]:
        """What happens in the tree, from a sequence number on; 0 is from now on."""
        request = core_pb2.SubscribeEventsRequest(since_seq=since_seq)
        async for event in self.stream("events", self.stub.SubscribeEvents, request):
            yield event

    async def add_cron(
        self,
        name: str,
        expression: str,
        target_pid: int,
        description: str = "",
        params: Mapping[str, str] | None = None,
        action: str = "execute",
    ) -> str:
        """Adds an entry to the crontab and returns its id."""
        request = core_pb2.AddCronRequest(
            name=name,
            cron_expression=expression,
            action=action,
            target_pid=target_pid,
            execute_description=description,
            execute_params=dict(params or {}),
        )
        answer = await self.unary("add_cron", self.stub.AddCron, request)
        if answer.error:
            raise SyscallError("add_cron", answer.error)
        return answer.cron_id

    async def remove_cron(self, cron_id: str) -> None:
        """Removes an entry of the crontab."""
        answer = await self.unary("remove_cron", self.stub.RemoveCron, core_pb2.RemoveCronRequest(cron_id=cron_id))
        if not answer.ok:
            raise SyscallError("remove_cron", answer.error or "the kernel did not say why")

    async def list_cron(self) -> list[core_pb2.CronEntryProto]:
        """The crontab."""
        return list((await self.unary("list_cron", self.stub.ListCron, core_pb2.ListCronRequest())).entries)

    async def list_inbox(self, pid: int = 0) -> list[Message]:
        """Messages that wait for a process; 0 is this one."""
        answer = await self.unary("list_inbox", self.stub.ListInbox, core_pb2.ListInboxRequest(pid=pid))
        return [Message.read(message) for message in answer.messages]


def waiting(timeout_seconds: int) -> float | None:
    """The deadline of a call that waits for a process: the kernel's own timeout ends it first."""
    return timeout_seconds + WAIT_SECONDS_EXTRA if timeout_seconds > 0 else None


def refused(call: str, error: grpc.aio.AioRpcError) -> SyscallError:
    code = error.code().name
    return SyscallError(call, error.details() or code, code)
