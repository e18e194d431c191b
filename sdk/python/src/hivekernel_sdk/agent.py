"""HiveKernel's base class of agents, on top of `skep`.

Its `handle_task` takes the task's calls as a second argument; one with the task alone works too. Messages come by `handle_message`.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from typing import TYPE_CHECKING, Any

from hivekernel_sdk.client import CoreClient, client_of
from hivekernel_sdk.syscall import SyscallContext
from skep.agent import BaseAgent
from skep.values import Message, MessageAck, Task, TaskResult

WAITS: str = "_hivekernel_waits"
RESULTS: str = "_hivekernel_results"


class HiveAgent(BaseAgent):
    """An agent as HiveKernel's SDK has it."""

    if TYPE_CHECKING:
        # Agents write either form, and both are right.
        handle_task: Any

    @property
    def core(self) -> CoreClient | None:
        return client_of(self)

    async def on_message(self, message: Message) -> MessageAck:
        """Hands a reply to whoever waits for it, and every other message to `handle_message`."""
        waiting = self._waits.pop(message.reply_to, None) if message.reply_to else None
        if waiting is not None:
            if not waiting.done():
                waiting.set_result(message)
            return MessageAck()
        if message.type == "task_response" and message.reply_to:
            self._results.append(message)
            return MessageAck()
        return await self.handle_message(message)

    async def handle_message(self, message: Message) -> MessageAck:
        """Answers a message that is no reply."""
        return MessageAck()

    async def send_and_wait(self, ctx: SyscallContext, to_pid: int, type: str, payload: bytes, timeout: float = 60.0) -> Message:
        """Sends a message and waits for the one that names it in `reply_to`."""
        request_id = str(uuid.uuid4())
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waits[request_id] = reply
        try:
            await ctx.send(to_pid=to_pid, type=type, payload=payload, reply_to=request_id)
            return await asyncio.wait_for(reply, timeout)
        except TimeoutError:
            raise TimeoutError(f"no reply from process {to_pid} within {timeout:g} s") from None
        finally:
            self._waits.pop(request_id, None)

    async def send_fire_and_forget(self, ctx: SyscallContext, to_pid: int, type: str, payload: bytes) -> str:
        """Sends a message whose reply comes later, and returns the id that the reply will name."""
        request_id = str(uuid.uuid4())
        await ctx.send(to_pid=to_pid, type=type, payload=payload, reply_to=request_id)
        return request_id

    def drain_pending_results(self) -> list[Message]:
        """Replies of the type `task_response` that nobody waited for, once each."""
        drained, self._results[:] = list(self._results), []
        return drained

    async def _work(self, task: Task) -> TaskResult:
        parameters = inspect.signature(self.handle_task).parameters.values()
        places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.VAR_POSITIONAL)]
        takes_calls = len(places) > 1 or any(one.kind is one.VAR_POSITIONAL for one in places)
        result: TaskResult
        if takes_calls:
            result = await self.handle_task(task, SyscallContext(self, task.task_id))
        else:
            result = await self.handle_task(task)
        return result

    @property
    def _waits(self) -> dict[str, asyncio.Future[Message]]:
        # Made at the first use: agents with their own `__init__` do not always call ours.
        waits: dict[str, asyncio.Future[Message]] = self.__dict__.setdefault(WAITS, {})
        return waits

    @property
    def _results(self) -> list[Message]:
        results: list[Message] = self.__dict__.setdefault(RESULTS, [])
        return results
