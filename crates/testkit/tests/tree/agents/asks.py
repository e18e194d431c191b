"""An agent that works on while its question is open."""

from __future__ import annotations

import asyncio
import time

from skep import Agent, Task, TaskResult


class WorksOn(Agent):
    """Asks, and writes down how often it could do something meanwhile."""

    async def handle_task(self, task: Task) -> TaskResult:
        ticks = 0

        async def work() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.05)

        working = asyncio.create_task(work())
        answer = await self.ask("may I?")
        working.cancel()
        begun = time.monotonic()
        while time.monotonic() - begun < float(task.params.get("after", "0")):
            await asyncio.sleep(0.05)
        return TaskResult(output=f"{answer} {ticks}")
