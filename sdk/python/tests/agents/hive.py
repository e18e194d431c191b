"""Agents as they are written for HiveKernel, imports included."""

import json

from hivekernel_sdk import AgentConfig, HiveAgent, LLMAgent, Message, MessageAck, SyscallContext, Task, TaskResult


class Old(HiveAgent):
    """With the calls of the task as a second argument, an `__init__` of its own, and every call."""

    def __init__(self) -> None:
        super().__init__()
        self.greeting = ""

    async def on_init(self, config: AgentConfig) -> None:
        assert self.core is not None
        await self.core.log("info", "begins", step=1)
        self.greeting = f"{config.name} {self.core.pid}"

    async def handle_task(self, task: Task, ctx: SyscallContext) -> TaskResult:
        if task.description == "reply":
            reply = await self.send_and_wait(ctx, int(task.params["to"]), "question", b"how are you?", timeout=10)
            return TaskResult(exit_code=0, output=reply.payload.decode())
        await ctx.report_progress("working", 50.0)
        child = await ctx.spawn(name="kid", role="task", cognitive_tier="operational", limits={"max_children": 1})
        art = await ctx.store_artifact("k", b"content", "text/plain", visibility=3)
        read = await ctx.get_artifact(key="k")
        await ctx.log("info", "line", event_type="tool_call")
        said = await ctx.escalate("trouble", severity="error")
        siblings = await ctx.list_siblings()
        killed = await ctx.kill(child)
        ended = await ctx.wait_child(child)
        out: dict[str, object] = {
            "greeting": self.greeting,
            "art": art,
            "content": read.content.decode(),
            "said": said,
            "task": ctx.task_id,
        }
        out |= {"siblings": [one.name for one in siblings], "killed": killed == [child], "ended": ended["pid"] == child}
        return TaskResult(exit_code=0, output=json.dumps(out))


class Answers(HiveAgent):
    """Answers a question by a message that names it. Its `handle_task` is the one of the specification."""

    async def handle_task(self, task: Task) -> TaskResult:
        return TaskResult(output="plain")

    async def handle_message(self, message: Message) -> MessageAck:
        if message.type == "question" and self.core is not None:
            await self.core.send_message(to_pid=message.from_pid, type="answer", payload=b"well", reply_to=message.reply_to)
        return MessageAck(status=MessageAck.ACK_ACCEPTED)


class Talker(LLMAgent):
    async def handle_task(self, task: Task, ctx: SyscallContext) -> TaskResult:
        answer = await self.ask(task.description, max_tokens=100)
        assert self.llm is not None
        return TaskResult(output=answer, metadata={"tokens": str(self.llm.total_tokens)})
