"""Agents of the phases of the process tree: queens, workers, a scout, a researcher, and the team that builds a compiler."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from skep import ACK_ESCALATE, Agent, AgentConfig, Message, MessageAck, SyscallError, Task, TaskResult
from skep.llm import Model, ModelError


class Worker(Agent):
    """Does what its task says in capitals, or crashes where it says so; it remembers how often it was started in its own folder."""

    async def on_init(self, config: AgentConfig) -> None:
        lives = Path("lives")
        self.lives = int(lives.read_text()) + 1 if lives.exists() else 1
        lives.write_text(str(self.lives))

    async def handle_task(self, task: Task) -> TaskResult:
        if task.description == "crash":
            sys.stderr.write("the last words\n")
            sys.stderr.flush()
            os._exit(9)
        if task.description == "lives":
            return TaskResult(output=str(self.lives))
        if task.description == "tell":
            await self.send(to_pid=self.ppid, type=task.params["type"], priority=task.params["priority"])  # type: ignore[arg-type]
        return TaskResult(output=f"{self.config.name}: {task.description.upper()}")


class Queen(Agent):
    """Has a worker do what she is told. A worker of hers that crashed is to be started again; other trouble is for those above."""

    def __init__(self) -> None:
        self.noticed: list[str] = []

    async def handle_task(self, task: Task) -> TaskResult:
        if task.description == "noticed":
            return TaskResult(output="\n".join(self.noticed))
        pid = await self.spawn("worker", "worker", "tactical", model="sonnet", agent=Worker)
        done = await self.execute_on(pid, task.description)
        await self.kill(pid)
        await self.wait_child(pid)
        return TaskResult(output=f"{self.config.name}: {done.output}")

    async def on_message(self, message: Message) -> MessageAck:
        if message.type != "escalation":
            return MessageAck()
        issue = json.loads(message.payload)["issue"]
        self.noticed.append(issue)
        return MessageAck(reply="restart") if "crashed" in issue else MessageAck(status=ACK_ESCALATE)


class Dora(Agent):
    """Scouts, and sends what she finds to a researcher in another branch."""

    def __init__(self) -> None:
        self.results: asyncio.Queue[str] = asyncio.Queue()

    async def on_message(self, message: Message) -> MessageAck:
        if message.type == "result":
            await self.results.put(f"{message.from_name} ({message.relation}): {message.payload.decode()}")
        return MessageAck()

    async def handle_task(self, task: Task) -> TaskResult:
        await self.send(to_pid=int(task.params["to"]), type="paper", payload=task.description, priority="high")
        async with asyncio.timeout(40):
            return TaskResult(output=await self.results.get())


class Researcher(Agent):
    """Spawns a coder for each paper, and answers whoever sent it with what came of it."""

    def __init__(self) -> None:
        self.work: set[asyncio.Task[None]] = set()

    async def on_message(self, message: Message) -> MessageAck:
        if message.type == "paper":
            work = asyncio.create_task(self.code(message))
            self.work.add(work)
            work.add_done_callback(self.work.discard)
        return MessageAck()

    async def code(self, message: Message) -> None:
        pid = await self.spawn("Coder", "worker", "tactical", agent=Worker)
        done = await self.execute_on(pid, message.payload.decode())
        await self.kill(pid)
        await self.send(to_pid=message.from_pid, type="result", payload=done.output, reply_to=message.message_id)

    async def handle_task(self, task: Task) -> TaskResult:
        return TaskResult(output=task.description)


class Post(Agent):
    """Keeps the kinds of its messages in the order in which they came."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.arrived = asyncio.Condition()

    async def on_message(self, message: Message) -> MessageAck:
        async with self.arrived:
            self.kinds.append(message.type)
            self.arrived.notify_all()
        return MessageAck()

    async def handle_task(self, task: Task) -> TaskResult:
        async with self.arrived, asyncio.timeout(20):
            await self.arrived.wait_for(lambda: len(self.kinds) >= int(task.params["count"]))
        return TaskResult(output=" ".join(self.kinds))


class Passes(Agent):
    """Deals with no trouble itself."""

    async def on_message(self, message: Message) -> MessageAck:
        return MessageAck(status=ACK_ESCALATE if message.type == "escalation" else MessageAck.ACK_ACCEPTED)

    async def handle_task(self, task: Task) -> TaskResult:
        return TaskResult(output=task.description)


class Asks(Agent):
    """Asks its model one question."""

    async def handle_task(self, task: Task) -> TaskResult:
        model = Model.of(self)
        model.output_tokens_max = 100
        try:
            return TaskResult(output=await model.ask(task.description))
        except ModelError as error:
            return TaskResult(exit_code=1, output=str(error))


class Spender(Agent):
    """Asks its model a number of questions. When its budget is used up it asks for more, and then those above it for help."""

    def __init__(self) -> None:
        self.helped: asyncio.Queue[str] = asyncio.Queue()

    async def on_message(self, message: Message) -> MessageAck:
        if message.type == "escalation_handled":
            await self.helped.put(json.loads(message.payload)["response"])
        return MessageAck()

    async def handle_task(self, task: Task) -> TaskResult:
        model = Model.of(self)
        model.output_tokens_max = 100
        answers, said = 0, "nothing"
        while answers < int(task.params["questions"]):
            try:
                await model.ask(f"question {answers}")
                answers += 1
                continue
            except ModelError as error:
                why = str(error)
            granted, _ = await self.request_resources("tokens", 400, why)
            if not granted:
                await self.escalate(f"my budget is used up after {answers} answers", "error")
                async with asyncio.timeout(60):
                    said = await self.helped.get()
        return TaskResult(output=f"{answers} answers, and the top said: {said}")


# The compiler


class Counter(Agent):
    """A daemon that counts the messages it had, over all of its lives."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def on_restore(self, state: bytes) -> None:
        self.seen = json.loads(state)

    async def on_shutdown(self, reason: str) -> bytes | None:
        return json.dumps(self.seen).encode()

    async def on_message(self, message: Message) -> MessageAck:
        self.seen.append(message.type)
        # Its first incarnation never answers this one; what it leaves behind tells the next.
        if message.type == "slow" and not Path("slow").exists():
            Path("slow").write_text(message.message_id)
            await asyncio.sleep(3600)
        return MessageAck(reply=f"{len(self.seen)}")

    async def handle_task(self, task: Task) -> TaskResult:
        return TaskResult(output=json.dumps(self.seen))


class Hand(Agent):
    """A worker or a task of the compiler: builds its part, and says so to its lead."""

    async def handle_task(self, task: Task) -> TaskResult:
        if task.description == "hold":
            await asyncio.sleep(3600)
        return TaskResult(output=f"{self.config.name} done")


class Architect(Agent):
    """Stores the design and sleeps."""

    async def handle_task(self, task: Task) -> TaskResult:
        await self.store("compiler/design", "lexer, parser, ir, codegen", visibility="user")
        return TaskResult(output="designed")


TEAMS = {
    "Frontend-Lead": [("Lexer-dev", "worker"), ("Parser-dev", "worker"), ("Lexer-tests", "task")],
    "IR-Lead": [("IR-builder", "worker"), ("Optimizer", "worker")],
    "Backend-Lead": [("Codegen-x86", "worker"), ("Codegen-arm", "worker")],
    "Testing-Lead": [("Unit-runner", "task"), ("Integration-runner", "task")],
}
"""The leads of the compiler and whom each has."""

LEAD_TOKENS = 10_000
HAND_TOKENS = 1_000


class Team(Agent):
    """Has children by their names: those that are there it uses, those that are missing it spawns."""

    async def crew(self) -> dict[str, int]:
        return {child.name: child.pid for child in await self.core.list_children() if child.state not in DEAD}

    async def dismiss(self) -> None:
        """Ends those that live, and takes note of the end of all."""
        for child in await self.core.list_children():
            if child.state not in DEAD:
                # A task may end by itself at this moment.
                with contextlib.suppress(SyscallError):
                    await self.kill(child.pid)
            await self.wait_child(child.pid)

    async def grow(self, wanted: dict[str, Callable[[], Awaitable[int]]]) -> dict[str, int]:
        there = await self.crew()
        missing = [name for name in wanted if name not in there]
        pids = await asyncio.gather(*(wanted[name]() for name in missing))
        return {**there, **dict(zip(missing, pids, strict=True))}

    async def each(self, pids: dict[str, int], description: str) -> list[str]:
        done = await asyncio.gather(*(self.execute_on(pid, description) for pid in pids.values()))
        return sorted(result.output for result in done)


DEAD = (4, 5)
"""Zombie and dead, as the contract numbers them."""


class Lead(Team):
    """Has the hands of its team."""

    async def hands(self) -> dict[str, int]:
        def hand(name: str, role: str) -> Callable[[], Awaitable[int]]:
            tier = "operational" if role == "task" else "tactical"
            limits = {"max_tokens_total": HAND_TOKENS}
            return lambda: self.spawn(name, role, tier, agent=Hand, limits=limits)  # type: ignore[arg-type]

        return await self.grow({name: hand(name, role) for name, role in TEAMS[self.config.name]})

    async def handle_task(self, task: Task) -> TaskResult:
        if task.description == "collapse":
            await self.dismiss()
            return TaskResult(output="collapsed")
        pids = await self.hands()
        if task.description == "grow":
            return TaskResult(output=", ".join(sorted(pids)))
        done = await self.each(pids, task.description)
        return TaskResult(output="; ".join(done))


class Leo(Team):
    """The researcher who has a compiler built: he has leads, they have workers and tasks, and at the end nobody is left."""

    async def leads(self) -> dict[str, int]:
        def lead(name: str) -> Callable[[], Awaitable[int]]:
            tier = "tactical" if name == "Testing-Lead" else "strategic"
            limits = {"max_tokens_total": LEAD_TOKENS, "max_children": 5}
            return lambda: self.spawn(name, "lead", tier, agent=Lead, limits=limits)  # type: ignore[arg-type]

        def coder() -> Awaitable[int]:
            return self.spawn("Coder", "worker", "tactical", agent=Hand, limits={"max_tokens_total": HAND_TOKENS})

        def architect() -> Awaitable[int]:
            limits = {"max_tokens_total": HAND_TOKENS}
            return self.spawn("Architect", "architect", "strategic", agent=Architect, initial_task="design", limits=limits)

        wanted = {name: lead(name) for name in TEAMS} | {"Coder": coder, "Architect": architect}
        return await self.grow(wanted)

    async def handle_task(self, task: Task) -> TaskResult:
        if task.description == "collapse":
            there = await self.crew()
            await self.each({name: pid for name, pid in there.items() if name in TEAMS}, "collapse")
            await self.dismiss()
            return TaskResult(output="collapsed")
        pids = await self.leads()
        leads = {name: pid for name, pid in pids.items() if name in TEAMS}
        done = await self.each(leads, task.description)
        return TaskResult(output="\n".join(done))
