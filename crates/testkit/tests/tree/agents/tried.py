"""Agents of the tests of the process tree: each tries one thing that a kernel must bear."""

from __future__ import annotations

import asyncio
import os
import sys

from skep import Agent, AgentConfig, Task, TaskResult


class Files(Agent):
    """Reads, writes and lists what the task names."""

    async def handle_task(self, task: Task) -> TaskResult:
        try:
            if task.description == "read":
                with open(task.params["path"], encoding="utf-8") as file:
                    return TaskResult(output=file.read())
            if task.description == "write":
                with open(task.params["path"], "w", encoding="utf-8") as file:
                    file.write(task.params["text"])
                return TaskResult(output=os.path.abspath(task.params["path"]))
            if task.description == "connect":
                host, port = task.params["address"].rsplit(":", 1)
                _, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), 5)
                writer.close()
                return TaskResult(output="connected")
        except OSError as error:
            return TaskResult(exit_code=1, output=type(error).__name__)
        return TaskResult(exit_code=2, output="unknown")


class Floods(Agent):
    """Writes more than any pipe holds, on both streams."""

    async def handle_task(self, task: Task) -> TaskResult:
        for _ in range(400):
            sys.stdout.write("o" * 1023 + "\n")
            sys.stderr.write("e" * 1023 + "\n")
        sys.stdout.flush()
        return TaskResult(output="flooded")


class Crashes(Agent):
    """Ends by itself when it is told to, and counts its lives by what it left."""

    def __init__(self) -> None:
        self.lives = 0

    async def on_init(self, config: AgentConfig) -> None:
        self.lives = 1

    async def on_restore(self, state: bytes) -> None:
        self.lives = int(state) + 1

    async def on_shutdown(self, reason: str) -> bytes | None:
        return str(self.lives).encode()

    async def handle_task(self, task: Task) -> TaskResult:
        if task.description == "crash":
            sys.stderr.write("the last words\n")
            sys.stderr.flush()
            os._exit(9)
        if task.description == "lives":
            return TaskResult(output=str(self.lives))
        if task.description == "sleep":
            await asyncio.sleep(float(task.params["seconds"]))
        if task.description == "deaf":
            # Blocks the loop: no interruption is heard.
            import time

            time.sleep(float(task.params["seconds"]))
        return TaskResult(output=task.description)


class NoStart(Agent):
    async def on_init(self, config: AgentConfig) -> None:
        await self.spawn("orphan-to-be", "task")
        raise RuntimeError("no key")


class Family(Agent):
    """Has children of a real program before it is ready itself."""

    async def on_init(self, config: AgentConfig) -> None:
        one = await self.spawn("kid-1", "worker", agent="tried:Files")
        two = await self.spawn("kid-2", "worker", agent="tried:Files")
        self.kids = [one, two]

    async def handle_task(self, task: Task) -> TaskResult:
        return TaskResult(output=" ".join(str(kid) for kid in self.kids))


class Holds(Agent):
    """Holds as many megabytes as the task names, as long as it lives."""

    def __init__(self) -> None:
        self.held: list[bytearray] = []

    async def handle_task(self, task: Task) -> TaskResult:
        self.held.append(bytearray(int(task.params["megabytes"]) * 1_000_000))
        return TaskResult(output=f"{sum(map(len, self.held)) // 1_000_000} MB")
