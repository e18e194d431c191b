"""Agents of the tests of the runner and of the contract suite."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from skep import ACK_ESCALATE, Agent, AgentConfig, Limits, Message, MessageAck, SyscallError, Task, TaskResult


class Echo(Agent):
    """Answers with what it was given."""

    async def handle_task(self, task: Task) -> TaskResult:
        if task.description == "fail":
            raise RuntimeError("told to fail")
        if task.description == "exit":
            return TaskResult(exit_code=7, output="seven")
        if task.description == "who":
            known = {"pid": self.pid, "ppid": self.ppid, "user": self.user, "role": self.role, "tier": self.tier}
            known |= {"name": self.config.name, "model": self.config.model, "prompt": self.config.system_prompt}
            return TaskResult(output=json.dumps(known))
        if task.description == "environment":
            return TaskResult(output=os.environ.get(task.params["name"], "<unset>"))
        if task.description == "ask":
            return TaskResult(output=await self.ask("which colour?"))
        return TaskResult(output=task.description, metadata=dict(task.params))


class Forever(Agent):
    """Never ends by itself, and keeps what it had."""

    async def handle_task(self, task: Task) -> TaskResult:
        self.keep_partial(TaskResult(exit_code=5, output="half"))
        await asyncio.sleep(3600)
        return TaskResult()

    async def on_shutdown(self, reason: str) -> bytes | None:
        return reason.encode()


class Unready(Agent):
    async def on_init(self, config: AgentConfig) -> None:
        raise RuntimeError("no key")


class Unmakeable(Agent):
    def __init__(self, needed: str) -> None:
        self.needed = needed


class SpawnsAtInit(Agent):
    """Has a child before it is ready itself."""

    async def on_init(self, config: AgentConfig) -> None:
        self.child = await self.spawn("first-child", "task")

    async def handle_task(self, task: Task) -> TaskResult:
        return TaskResult(output=str(self.child))


class Mailbox(Agent):
    """Keeps its messages and shows them."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.arrived = asyncio.Condition()

    async def on_message(self, message: Message) -> MessageAck:
        async with self.arrived:
            self.messages.append(message)
            self.arrived.notify_all()
        if message.type == "please-log":
            await self.log("info", "outside a task", event_type="note")
        return MessageAck(status=ACK_ESCALATE if message.type == "too-much" else MessageAck.ACK_ACCEPTED)

    async def handle_task(self, task: Task) -> TaskResult:
        wanted = int(task.params.get("count", "1"))
        async with self.arrived, asyncio.timeout(20):
            await self.arrived.wait_for(lambda: len(self.messages) >= wanted)
        shown = [
            {
                "id": one.message_id,
                "from": one.from_pid,
                "relation": one.relation,
                "type": one.type,
                "payload": one.payload.decode(),
                "reply_to": one.reply_to,
            }
            for one in self.messages
        ]
        return TaskResult(output=json.dumps(shown))


class Caller(Agent):
    """Makes the call that the task names, inside the task, and answers with what came of it."""

    async def handle_task(self, task: Task) -> TaskResult:
        given = task.inputs
        try:
            return TaskResult(output=json.dumps(await self.make(given)))
        except SyscallError as error:
            return TaskResult(exit_code=1, output=str(error))

    async def make(self, given: dict[str, Any]) -> Any:
        call = given["call"]
        if call == "spawn":
            return await self.spawn(given["name"], given.get("role", "task"), limits=Limits(max_children=1))
        if call == "spawn_many":
            return await asyncio.gather(*(self.spawn(f"many-{number}") for number in range(given["count"])))
        if call == "spawn_echo":
            path = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
            return await self.spawn("echo", given.get("role", "worker"), agent=Echo, env=path)
        if call == "kill":
            return await self.kill(given["pid"])
        if call == "send":
            return await self.send(to_pid=given["pid"], type="note", payload=given["text"])
        if call == "store":
            return await self.store(given["key"], given["text"], given.get("visibility", "global"))
        if call == "get":
            content = await self.get_artifact(given["key"])
            return content.decode() if content is not None else None
        if call == "list":
            return [one.key for one in await self.list_artifacts(given["prefix"])]
        if call == "escalate":
            return await self.escalate(given["text"], "error", context={"who": "caller"})
        if call == "log":
            return await self.log("warn", given["text"], event_type="tool_call")
        if call == "execute_on":
            result = await self.execute_on(given["pid"], given["text"])
            return [result.exit_code, result.output]
        if call == "wait_child":
            ended = await self.wait_child(given["pid"], given.get("timeout", 20))
            return [ended.exit_code, ended.output]
        if call == "siblings":
            return sorted(one.name for one in await self.list_siblings())
        if call == "resources":
            return (await self.get_resources()).tokens_remaining
        if call == "request":
            return list(await self.request_resources("tokens", given["amount"], "more work"))
        if call == "metric":
            return await self.report_metric("tokens_consumed", 5.0, model="mini")
        if call == "subscribe":
            async for message in self.subscribe(given["queue"]):
                return message.payload.decode()
        raise ValueError(call)
