"""The client of `CoreService`: addresses, headers, the secret."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from driver import driven
from small_kernel import SmallKernel

from skep import Agent, Core, SyscallError, Task, TaskResult
from skep.core import is_loopback, target_of
from skep.limits import MESSAGE_BYTES_MAX
from skep.wire import agent_pb2 as wire


@contextlib.asynccontextmanager
async def kernel(address: str = "127.0.0.1:0", **named: Any) -> AsyncIterator[SmallKernel]:
    small = SmallKernel(**named)
    await small.start(address)
    try:
        yield small
    finally:
        await small.stop()


@contextlib.asynccontextmanager
async def client(address: str, pid: int, secret: str | None = None) -> AsyncIterator[Core]:
    core = Core(address, pid, secret)
    try:
        yield core
    finally:
        await core.close()


async def child_of(small: SmallKernel) -> int:
    request = wire.SpawnRequest(name="child", role=wire.ROLE_WORKER, cognitive_tier=wire.COG_TACTICAL)
    return (await small.spawn(small.rows[1], request)).child_pid


async def test_the_secret_opens_tcp_and_nothing_else_does() -> None:
    async with kernel(require_secret=True) as small:
        pid = await child_of(small)
        async with client(small.address, pid, small.rows[pid].secret) as core:
            assert (await core.process_info()).pid == pid
        for wrong in (None, "guess"):
            async with client(small.address, pid, wrong) as core:
                with pytest.raises(SyscallError, match="the secret is not that of the process") as refused:
                    await core.process_info()
                assert refused.value.code == "UNAUTHENTICATED"


async def test_a_unix_socket_works_and_gets_no_secret(tmp_path: Path) -> None:
    address = f"unix://{tmp_path}/core.sock"
    async with kernel(address) as small:
        pid = await child_of(small)
        async with client(address, pid, "s3cret") as core:
            assert (await core.process_info()).pid == pid
            assert core.metadata == (("x-hivekernel-pid", str(pid)),)


async def test_a_unix_socket_is_asked_as_localhost(tmp_path: Path) -> None:
    """Servers written in Rust refuse a path as the authority, before any of their own code runs."""
    path = tmp_path / "raw.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.setblocking(False)
        async with client(f"unix://{path}", 1) as core:
            heard, answer = await asyncio.gather(first_headers(listener), core.process_info(), return_exceptions=True)
    assert isinstance(answer, SyscallError)
    assert isinstance(heard, bytes)
    assert b":authority\x09localhost" in heard


async def first_headers(listener: socket.socket) -> bytes:
    """What a client sends up to its first headers. Then nobody listens any more, and its call fails."""
    loop, heard = asyncio.get_running_loop(), b""
    connection, _ = await loop.sock_accept(listener)
    listener.close()
    with connection:
        empty_settings = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
        await loop.sock_sendall(connection, empty_settings)
        while b"content-type" not in heard and (data := await loop.sock_recv(connection, 4096)):
            heard += data
    return heard


async def test_a_proxy_is_not_asked_for_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with kernel() as small, client(small.address, 1) as core:
        assert (await core.process_info()).name == "king"


@pytest.mark.parametrize("address", ["10.1.2.3:50051", "example.com:50051", "0.0.0.0:50051", "localhost.example.com:1", "[fe80::1]:5"])
def test_a_secret_is_for_the_loopback(address: str) -> None:
    with pytest.raises(ValueError, match="unencrypted"):
        Core(address, 1, "s3cret")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "localhost:1", "[::1]:1", ":50051", "127.9.9.9:1"])
def test_these_are_loopback(address: str) -> None:
    assert is_loopback(address)


def test_a_bare_port_is_this_machine() -> None:
    assert target_of(":50051") == "127.0.0.1:50051"
    assert target_of("unix:///run/x") == "unix:///run/x"


async def test_a_request_that_is_too_large_is_not_sent() -> None:
    async with kernel() as small, client(small.address, 1) as core:
        request = wire.StoreArtifactRequest(key="k", content=b"x" * (MESSAGE_BYTES_MAX + 1))
        with pytest.raises(SyscallError, match="more than"):
            await core.unary("store", core.stub.StoreArtifact, request)
        assert small.artifacts == {}


class Idle(Agent):
    async def handle_task(self, task: Task) -> TaskResult:
        return TaskResult()


async def test_every_call_works_outside_a_task() -> None:
    async with kernel() as small, client(small.address, 0) as core:
        request = wire.SpawnRequest(name="lead", role=wire.ROLE_LEAD, cognitive_tier=wire.COG_TACTICAL)
        pid = (await small.spawn(small.rows[1], request)).child_pid
        await child_of(small)
        agent = Idle()
        async with driven(agent, core) as kernel_side:
            with pytest.raises(SyscallError, match="runs under no kernel"):
                await agent.list_siblings()
            await kernel_side.init(wire.ROLE_LEAD, pid=pid)
            child = await agent.spawn("kid", "worker", "operational", "be good", ["shell"], "mini", limits={"max_children": 2})
            row = small.rows[child]
            assert (row.ppid, row.request.tools[:], row.request.limits.max_children) == (pid, ["shell"], 2)
            assert [one.name for one in await agent.list_siblings()] == ["child"]
            assert await agent.send(to_pid=child, type="t", payload="text", priority="high", ttl=5)
            assert (small.rows[child].inbox[0].payload, small.rows[child].inbox[0].priority) == (b"text", wire.PRIORITY_HIGH)
            artifact = await agent.store("key", "text", "private")
            assert await agent.get_artifact("key") == b"text"
            assert (await agent.read_artifact(artifact_id=artifact)).content_type == "text/plain; charset=utf-8"
            assert await agent.get_artifact("none") is None
            with pytest.raises(SyscallError, match="artifact `none` not found"):
                await agent.read_artifact("none")
            assert [one.key for one in await agent.list_artifacts()] == ["key"]
            assert await agent.escalate("lost", "critical") == "noted"
            await agent.log("error", "line", number=5)
            assert small.logged[-1][1].fields == {"number": "5"}
            assert (await agent.get_resources()).children_active == 1
            assert await agent.request_resources("tokens", 10**9, "all of it") == (False, 0)
            await agent.report_metric("m", 1.5, model="x")
            assert (small.metrics[-1][1].value, dict(small.metrics[-1][1].labels)) == (1.5, {"model": "x"})
            with pytest.raises(SyscallError, match="runs no program"):
                await agent.execute_on(child, "x")
            with pytest.raises(SyscallError, match="still runs after 1 s"):
                await agent.wait_child(child, timeout=1)
            assert (await kernel_side.beat()).active_children == 1
            assert await agent.kill(child) == [child]
            assert (await kernel_side.beat()).active_children == 0
            assert (await agent.wait_child(child)).pid == child
            assert small.calls_over_streams == []


async def test_words_that_are_not_in_the_contract_are_refused_here() -> None:
    async with kernel() as small, client(small.address, 1) as core:
        agent = Idle()
        async with driven(agent, core) as kernel_side:
            await kernel_side.init(pid=1)
            for attempt, says in (
                (agent.spawn("x", "boss"), "`boss` is not a role"),  # type: ignore[arg-type]
                (agent.spawn("x", "task", "genius"), "`genius` is not a cognitive tier"),  # type: ignore[arg-type]
                (agent.store("k", b"", "everybody"), "`everybody` is not a visibility"),  # type: ignore[arg-type]
                (agent.escalate("x", "panic"), "`panic` is not a severity"),  # type: ignore[arg-type]
                (agent.log("loud", "x"), "`loud` is not a level"),  # type: ignore[arg-type]
                (agent.send(to_pid=1, priority="now"), "`now` is not a priority"),  # type: ignore[arg-type]
                (agent.send(), "either to a process"),
                (agent.send(to_pid=1, to_queue="q"), "either to a process"),
            ):
                with pytest.raises(ValueError, match=says):
                    await attempt
            assert list(small.rows) == [1]


async def test_a_class_that_nobody_can_import_is_refused() -> None:
    class Local(Agent):
        pass

    async with kernel() as small, client(small.address, 1) as core:
        agent = Idle()
        async with driven(agent, core) as kernel_side:
            await kernel_side.init(pid=1)
            with pytest.raises(ValueError, match="cannot be imported"):
                await agent.spawn("x", agent=Local)
