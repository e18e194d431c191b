"""Agents that come to their limits, and tell what they heard of that."""

from __future__ import annotations

import asyncio
import json

from skep import Agent, Message, MessageAck, Task, TaskResult
from skep.llm import Model, ModelError


class Listens(Agent):
    """Does what the first word of its task says, and keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.arrived = asyncio.Condition()

    async def on_message(self, message: Message) -> MessageAck:
        told = message.payload.decode()
        if message.type.startswith("budget_"):
            body = json.loads(told)
            told = f"{body['what']} {body['used']} of {body['cap']}, by {message.relation}"
        async with self.arrived:
            self.heard.append(f"{message.type}: {told}")
            self.arrived.notify_all()
        return MessageAck()

    async def handle_task(self, task: Task) -> TaskResult:
        word, _, rest = task.description.partition(" ")
        if word == "spend":
            await self.core.report_metric("tokens_consumed", float(rest))
            return TaskResult(output=f"spent {rest}")
        if word == "hear":
            async with self.arrived, asyncio.timeout(20):
                await self.arrived.wait_for(lambda: len(self.heard) >= int(rest))
            return TaskResult(output="\n".join(self.heard))
        if word == "delegate":
            limits = {"max_context_tokens": int(rest)}
            pid = await self.spawn("narrow", "worker", "operational", model="operational", agent=Listens, limits=limits)  # type: ignore[arg-type]
            return TaskResult(output=str(pid))
        model = Model.of(self)
        model.output_tokens_max = 100
        try:
            return TaskResult(output=await model.ask(task.description))
        except ModelError as error:
            return TaskResult(exit_code=1, output=str(error))
