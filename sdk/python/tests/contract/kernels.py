"""The kernels that the contract suite runs against: the small one of these tests, and the real one where `SKEP_BIN` names it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sysconfig
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from small_kernel import SmallKernel
from small_tree import KING

from skep import Core
from skep.wire import agent_pb2 as wire

TESTS = Path(__file__).resolve().parent.parent
SKEP_BIN = os.environ.get("SKEP_BIN", "")


class Kernel:
    """A kernel that runs: its address, and the credentials of its king."""

    def __init__(self, address: str, small: SmallKernel | None = None) -> None:
        self.address = address
        self.small = small
        self.king = Core(address, KING)

    async def spawn(self, name: str, image: str = "", role: wire.AgentRole.ValueType = wire.ROLE_WORKER, **named: Any) -> int:
        """Spawns a child of the king and returns its pid."""
        named.setdefault("cognitive_tier", wire.COG_TACTICAL)
        request = wire.SpawnRequest(name=name, role=role, runtime_image=image, env={"PYTHONPATH": str(TESTS)}, **named)
        answer = await self.king.unary("spawn", self.king.stub.SpawnChild, request)
        assert answer.success, answer.error
        return answer.child_pid

    async def execute(self, pid: int, description: str, **params: str) -> tuple[int, str]:
        answer = await self.king.execute_task(pid, description, params, 30)
        assert answer.success, answer.error
        return answer.result.exit_code, answer.result.output

    async def call(self, pid: int, call: str, /, **given: Any) -> Any:
        """Has a `Caller` make one call inside a task, and returns what came of it."""
        code, output = await self.execute(pid, json.dumps({"call": call, **given}))
        assert code == 0, output
        return json.loads(output)


@contextlib.asynccontextmanager
async def small_kernel() -> AsyncIterator[Kernel]:
    small = SmallKernel(require_secret=True)
    await small.start()
    kernel = Kernel(small.address, small)
    try:
        yield kernel
    finally:
        await kernel.king.close()
        await small.stop()


@contextlib.asynccontextmanager
async def real_kernel() -> AsyncIterator[Kernel]:
    """The real one, in a home of its own. The bare pid header counts there: the suite speaks for the king by it."""
    with tempfile.TemporaryDirectory(prefix="skep-contract-") as folder:
        home = Path(folder)
        (home / "config.yml").write_text("grpc: {trust_pid_header: true}\n", encoding="utf-8")
        startup = home / "startup.json"
        startup.write_text('{"agents": []}\n', encoding="utf-8")
        # Agents run in sandboxes, where only what the kernel was started with is found.
        modules = f"{sysconfig.get_path('platlib')}:{TESTS}"
        environment = {**os.environ, "SKEP_HOME": str(home), "SKEP_SDK_PATH": str(TESTS.parent), "PYTHONPATH": modules}
        await skep(environment, "kernel", "start", "--grpc", "127.0.0.1:0", "--startup", str(startup))
        try:
            status = json.loads(await skep(environment, "kernel", "status", "--json"))
            kernel = Kernel(grpc_address(status))
            yield kernel
            await kernel.king.close()
        finally:
            await skep(environment, "kernel", "stop")


def grpc_address(status: dict[str, Any]) -> str:
    """Where the kernel's status says that it listens on TCP."""
    return next(str(address) for address in status["grpc"] if not str(address).startswith("unix:"))


async def skep(environment: dict[str, str], *arguments: str) -> str:
    return await command(environment, [SKEP_BIN, *arguments])


async def command(environment: dict[str, str], line: Sequence[str]) -> str:
    process = await asyncio.create_subprocess_exec(*line, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, f"{' '.join(line)}: {err.decode()}"
    return out.decode()
