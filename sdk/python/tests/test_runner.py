"""The runner as the kernel starts it: handshake, exit codes, stdout, environment."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest
from agents.plain import Echo

from skep import Core
from skep.runner import EXIT_NO_INIT, UnknownAgentError, load, serve
from skep.wire import agent_pb2 as wire
from skep.wire import agent_pb2_grpc

HERE = Path(__file__).resolve().parent
NOBODY = "127.0.0.1:9"


async def start(*arguments: str, module: str = "skep.runner", **environment: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(HERE), **environment},
        limit=1 << 20,
    )


async def outcome(*arguments: str) -> tuple[int | None, str, str]:
    process = await start(*arguments)
    out, err = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode, out.decode(), err.decode()


class Started:
    """A runner that printed its port."""

    def __init__(self, process: asyncio.subprocess.Process, line: str, stub: agent_pb2_grpc.AgentServiceStub) -> None:
        self.process = process
        self.line = line
        self.stub = stub

    async def init(self, role: wire.AgentRole.ValueType = wire.ROLE_WORKER) -> wire.InitResponse:
        return await self.stub.Init(wire.InitRequest(pid=7, ppid=1, role=role), timeout=10)

    async def execute(self, description: str, **params: str) -> wire.TaskProgress:
        async def inputs() -> AsyncIterator[wire.ExecuteInput]:
            yield wire.ExecuteInput(task=wire.TaskRequest(task_id="t", description=description, params=params))

        return [report async for report in self.stub.Execute(inputs(), timeout=10)][-1]

    async def ended(self) -> int | None:
        await asyncio.wait_for(self.process.wait(), 15)
        return self.process.returncode


@contextlib.asynccontextmanager
async def running(agent: str, module: str = "skep.runner", **environment: str) -> AsyncIterator[Started]:
    process = await start("--agent", agent, "--core", NOBODY, module=module, **environment)
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 20)).decode()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{line.split()[1]}") as channel:
            yield Started(process, line, agent_pb2_grpc.AgentServiceStub(channel))
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_the_handshake_is_the_first_line_and_a_task_runs() -> None:
    async with running("agents.plain:Echo") as agent:
        assert agent.line == f"READY {int(agent.line.split()[1])}\n"
        assert (await agent.init()).ready
        assert (await agent.execute("hello")).result.output == "hello"


@pytest.mark.parametrize("module", ["skep.runner", "hivekernel_sdk.runner"])
async def test_shutdown_ends_the_process_with_0(module: str) -> None:
    async with running("agents.plain:Forever", module=module) as agent:
        await agent.init()
        answer = await agent.stub.Shutdown(wire.ShutdownRequest(reason=wire.SHUTDOWN_MIGRATION))
        assert answer.state_snapshot == b"migration"
        assert await agent.ended() == 0


async def test_the_role_task_ends_by_itself_after_its_result_was_read() -> None:
    async with running("agents.plain:Echo") as agent:
        await agent.init(wire.ROLE_TASK)
        assert (await agent.execute("exit")).result.exit_code == 7
        assert await agent.ended() == 0


async def test_every_other_role_stays() -> None:
    async with running("agents.plain:Echo") as agent:
        await agent.init(wire.ROLE_LEAD)
        await agent.execute("one")
        await asyncio.sleep(1.5)
        assert (await agent.execute("two")).result.output == "two"


async def test_a_failed_init_ends_the_process_with_3() -> None:
    async with running("agents.plain:Unready") as agent:
        assert (await agent.init()).error == "no key"
        assert await agent.ended() == 3


async def test_sigterm_ends_the_process_with_143() -> None:
    async with running("agents.plain:Forever") as agent:
        await agent.init()
        agent.process.send_signal(signal.SIGTERM)
        assert await agent.ended() == 128 + signal.SIGTERM


async def test_without_init_the_process_ends_with_4() -> None:
    read, write = os.pipe()
    try:
        assert await asyncio.wait_for(serve(Echo(), Core(NOBODY), write, init_seconds=0.2), 10) == EXIT_NO_INIT
        assert os.read(read, 64).startswith(b"READY ")
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        ("no-colon", "is not `module:Class`"),
        (":Class", "is not `module:Class`"),
        ("agents.plain:", "is not `module:Class`"),
        ("agents.nothing:Class", "there is no module `agents.nothing`"),
        ("agents.plain:Nothing", "`Nothing` of `agents.plain` is no class of an agent"),
        ("agents.plain:json", "is no class of an agent"),
        ("os:PathLike", "is no class of an agent"),
    ],
)
async def test_an_agent_that_is_not_there_ends_the_process_with_2(agent: str, says: str) -> None:
    code, out, err = await outcome("--agent", agent, "--core", NOBODY)
    assert (code, out) == (2, "")
    assert says in err


async def test_wrong_arguments_end_the_process_with_2() -> None:
    code, out, err = await outcome()
    assert (code, out) == (2, "")
    assert "--agent" in err


@pytest.mark.parametrize(("agent", "says"), [("agents.plain:Unmakeable", "needed"), ("agents.broken:Agent", "ZeroDivisionError")])
async def test_an_agent_that_cannot_be_made_ends_the_process_with_1(agent: str, says: str) -> None:
    code, out, err = await outcome("--agent", agent, "--core", NOBODY)
    assert (code, out) == (1, "")
    assert says in err


async def test_a_secret_is_not_sent_to_another_machine() -> None:
    process = await start("--agent", "agents.plain:Echo", "--core", "10.0.0.1:5000", SKEP_SECRET="s3cret")
    out, err = await asyncio.wait_for(process.communicate(), 30)
    assert (process.returncode, out) == (1, b"")
    assert b"unencrypted" in err
    assert b"s3cret" not in err


async def test_the_secret_leaves_the_environment() -> None:
    async with running("agents.plain:Echo", SKEP_SECRET="s3cret", OTHER="kept") as agent:
        await agent.init()
        assert (await agent.execute("environment", name="SKEP_SECRET")).result.output == "<unset>"
        assert (await agent.execute("environment", name="OTHER")).result.output == "kept"


async def test_noise_before_the_handshake_goes_to_stderr_and_later_to_stdout() -> None:
    async with running("agents.noisy:Noisy") as agent:
        port = int(agent.line.split()[1])
        assert port > 3
        assert (await agent.init()).ready
        read = asyncio.create_task(agent.process.stdout.readline())  # type: ignore[union-attr]
        assert (await agent.execute("print")).result.output == "printed"
        await agent.stub.Shutdown(wire.ShutdownRequest())
        assert await read == b"x" * 200_000 + b"\n"
        assert await agent.ended() == 0
        err = (await agent.process.communicate())[1].decode()
        assert [line for line in err.splitlines() if line.startswith("READY")] == ["READY 1", "READY 2", "READY 3"]


async def test_the_port_is_on_the_loopback_alone() -> None:
    async with running("agents.plain:Echo") as agent:
        port = int(agent.line.split()[1])
        # The last eight digits of an address are its IPv4 part; gRPC listens on an IPv6 socket where it can.
        assert [address[-8:] for address in listening(port)] == ["0100007F"]


def listening(port: int) -> list[str]:
    """The addresses that somebody listens on at this port, in the kernel's spelling."""
    rows = [
        line.split() for table in ("/proc/net/tcp", "/proc/net/tcp6") for line in Path(table).read_text(encoding="ascii").splitlines()[1:]
    ]
    places = [row[1].split(":") for row in rows if row[3] == "0A"]
    return [address for address, at in places if int(at, 16) == port]


def test_a_class_inside_a_class_can_be_named() -> None:
    assert load("test_runner:Nest.Inner") is Nest.Inner
    with pytest.raises(UnknownAgentError):
        load("test_runner:Nest.Missing")


class Nest:
    class Inner(Echo):
        pass
