"""An agent that answers messages as their type says, and tells what it had."""

from __future__ import annotations

import asyncio

from skep import ACK_ESCALATE, ACK_QUEUED, ACK_REJECTED, Agent, Message, MessageAck, Task, TaskResult


class Letters(Agent):
    def __init__(self) -> None:
        self.had: list[str] = []

    async def on_message(self, message: Message) -> MessageAck:
        line = f"{message.type} {message.payload.decode()} {message.reply_to}".strip()
        is_first = line not in self.had
        self.had.append(line)
        if message.type == "slow":
            await asyncio.sleep(float(message.payload.decode()))
        if message.type == "later" and is_first:
            return MessageAck(status=ACK_QUEUED)
        if message.type == "no":
            return MessageAck(status=ACK_REJECTED, reply="not mine")
        if message.type == "up":
            return MessageAck(status=ACK_ESCALATE)
        if message.type == "escalation":
            return MessageAck(reply="turn it off and on")
        return MessageAck()

    async def handle_task(self, task: Task) -> TaskResult:
        return TaskResult(output="\n".join(self.had))
