"""An agent of another make: it does not tell the kernel that it remembers the ids of messages, and never answers one."""

from __future__ import annotations

import asyncio

import skep.service
from skep import Agent, Message, MessageAck, Task, TaskResult

skep.service.REMEMBERS_IDS = ("x-skep-remembers-ids", "0")  # type: ignore[misc]


class Forgetful(Agent):
    def __init__(self) -> None:
        self.seen = 0

    async def on_message(self, message: Message) -> MessageAck:
        self.seen += 1
        await asyncio.sleep(3600)
        return MessageAck()

    async def handle_task(self, task: Task) -> TaskResult:
        return TaskResult(output=str(self.seen))
