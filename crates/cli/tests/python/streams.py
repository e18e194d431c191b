"""Agents that open streams of bytes to each other."""

from __future__ import annotations

import asyncio
import hashlib
import os

from skep import Agent, SyscallError, Task, TaskResult

PIECE = bytes(range(256)) * 256


class Reads(Agent):
    """The child's end."""

    async def handle_task(self, task: Task) -> TaskResult:
        async with await self.open_stream(self.ppid, "data") as stream:
            if task.description == "echo":
                count = 0
                async for piece in stream:
                    count += len(piece)
                    await stream.write(piece)
                await stream.finish()
                return TaskResult(output=str(count))
            if task.description == "hold":
                # Reads nothing before its parent says so.
                async with await self.open_stream(self.ppid, "go") as go:
                    await go.read()
                count = 0
                async for piece in stream:
                    count += len(piece)
                await stream.finish()
                return TaskResult(output=str(count))
            await stream.read()
            if task.description == "die":
                os._exit(9)
            return TaskResult(output="left")


class Opens(Agent):
    """The parent's end."""

    async def handle_task(self, task: Task) -> TaskResult:
        if "to" in task.params:
            try:
                await self.open_stream(int(task.params["to"]), task.params.get("name", "data"), wait_seconds=1)
            except SyscallError as error:
                return TaskResult(output=str(error))
            return TaskResult(exit_code=1, output="it was opened")
        child = await self.spawn("child", "worker", agent=Reads)
        work = asyncio.create_task(self.execute_on(child, task.description))
        stream = await self.open_stream(child, "data")
        output = await {"echo": self.echo, "hold": self.hold}.get(task.description, self.lose)(stream, child)
        if task.description in ("echo", "hold"):
            output += f", child {(await work).output}"
        else:
            await asyncio.wait({work})
            work.exception()
        return TaskResult(output=output)

    async def echo(self, stream, child):  # type: ignore[no-untyped-def]
        """Writes and reads at the same time, so much that neither side can hold it."""

        async def write() -> str:
            sent = hashlib.sha256()
            for _ in range(100):
                await stream.write(PIECE)
                sent.update(PIECE)
            await stream.finish()
            return sent.hexdigest()

        writing = asyncio.create_task(write())
        received, count = hashlib.sha256(), 0
        async for piece in stream:
            received.update(piece)
            count += len(piece)
        same = await writing == received.hexdigest()
        await stream.close()
        return f"{count} back, {'the same' if same else 'changed'}"

    async def hold(self, stream, child):  # type: ignore[no-untyped-def]
        """Writes until nothing more is taken, then has the child read."""
        written = 0
        while True:
            writing = asyncio.create_task(stream.write(PIECE))
            done, _ = await asyncio.wait({writing}, timeout=3)
            if not done:
                break
            written += len(PIECE)
        async with await self.open_stream(child, "go") as go:
            await go.write(b"go")
            await writing
            await stream.finish()
            rest = await stream.read()
            await stream.close()
        return f"{written} held, {written + len(PIECE)} in all, {len(rest)} back"

    async def lose(self, stream, child):  # type: ignore[no-untyped-def]
        await stream.write(b"x")
        try:
            await stream.read()
        except SyscallError as error:
            return str(error)
        return "nothing was lost"
