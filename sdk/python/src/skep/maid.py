"""A maid: keeps an eye on the machine that the kernel runs on.

`skep spawn maid --role daemon --tier tactical --python skep.maid:Maid` has two tasks as children, which look at memory and disk and
escalate when more is used than they were told; the maid passes that on to those above it. `MAID_MEMORY_PERCENT`, `MAID_DISK_PERCENT`
and `MAID_SECONDS` of its environment say how much is too much and how often they look.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Final

from skep.agent import Agent
from skep.names import ACK_ESCALATE
from skep.route import SyscallError
from skep.values import AgentConfig, Message, MessageAck, Task, TaskResult

PERCENT: Final = "90"
SECONDS: Final = "30"
# A monitor tells again when it got better in between, or after so many looks.
QUIET_LOOKS: Final = 20
RESTART_SECONDS: Final = 5.0


def memory_percent(meminfo: str) -> float:
    """How much of the machine's memory is in use, by the text of `/proc/meminfo`."""
    fields = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    total, free = (int(fields[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    return 100.0 * (total - free) / total if total else 0.0


def memory_in_use() -> float:
    return memory_percent(Path("/proc/meminfo").read_text(encoding="utf-8"))


def disk_percent(folder: str) -> float:
    """How much of the disk that a folder lies on is in use, as those see it who are not root."""
    disk = os.statvfs(folder)
    used = disk.f_blocks - disk.f_bfree
    return 100.0 * used / (used + disk.f_bavail) if used + disk.f_bavail else 0.0


class Monitor(Agent):
    """Looks again and again, as its one task, and escalates what is too much."""

    what = ""

    def look(self) -> float:
        """The percentage in use now."""
        raise NotImplementedError

    async def handle_task(self, task: Task) -> TaskResult:
        most, pause = float(task.params["percent"]), float(task.params["seconds"])
        quiet = 0
        while True:
            used = self.look()
            if used < most:
                quiet = 0
            elif quiet == 0:
                quiet = QUIET_LOOKS
                await self.escalate(f"{self.what}: {used:.0f} % in use, {most:.0f} % are too much", "warning")
            else:
                quiet -= 1
            await asyncio.sleep(pause)


class MemoryMonitor(Monitor):
    what = "memory"

    def look(self) -> float:
        return memory_in_use()


class DiskMonitor(Monitor):
    what = "disk"

    def look(self) -> float:
        return disk_percent(".")


class Maid(Agent):
    """Has a monitor for memory and one for the disk. What they report is for those above."""

    async def on_init(self, config: AgentConfig) -> None:
        self.watching = [
            asyncio.create_task(self.watch("memory-monitor", MemoryMonitor, "MAID_MEMORY_PERCENT")),
            asyncio.create_task(self.watch("disk-monitor", DiskMonitor, "MAID_DISK_PERCENT")),
        ]

    async def watch(self, name: str, monitor: type[Monitor], variable: str) -> None:
        """Has a monitor at work, and another when it ended."""
        params = {"percent": self.setting(variable, PERCENT), "seconds": self.setting("MAID_SECONDS", SECONDS)}
        while True:
            with contextlib.suppress(SyscallError):
                pid = await self.spawn(name, "task", "operational", agent=monitor)
                await self.execute_on(pid, "watch", params)
            await asyncio.sleep(RESTART_SECONDS)

    def setting(self, name: str, default: str) -> str:
        return self.env.get(name) or os.environ.get(name, default)

    async def on_message(self, message: Message) -> MessageAck:
        return MessageAck(status=ACK_ESCALATE) if message.type == "escalation" else MessageAck()

    async def on_shutdown(self, reason: str) -> bytes | None:
        for watching in self.watching:
            watching.cancel()
        return None

    async def handle_task(self, task: Task) -> TaskResult:
        """Says what is in use now."""
        return TaskResult(output=f"memory {memory_in_use():.0f} %, disk {disk_percent('.'):.0f} %")
