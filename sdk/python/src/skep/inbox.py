"""Messages that arrived: each id is handled once.

**Invariant.** A message that is delivered again gets the answer of the first delivery, also while that is still at work. A handler
that failed, or wants the message later, is forgotten, so the next delivery tries again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from skep.limits import MESSAGE_IDS_MAX
from skep.names import Ack
from skep.values import Message, MessageAck

Handle = Callable[[Message], Awaitable[MessageAck]]


class Inbox:
    """The ids of an agent's messages, with what became of each."""

    def __init__(self, handle: Handle, ids_max: int = MESSAGE_IDS_MAX) -> None:
        self._handle = handle
        self._ids_max = ids_max
        self._answers: OrderedDict[str, asyncio.Task[MessageAck]] = OrderedDict()
        self._unnamed: set[asyncio.Task[MessageAck]] = set()

    async def deliver(self, message: Message) -> MessageAck:
        """Handles a message, or waits for the delivery that does.

        The handler goes on when the kernel gives up waiting: a delivery that is cancelled cancels no work.
        """
        answer = self._answers.get(message.message_id) if message.message_id else None
        if answer is None:
            answer = asyncio.create_task(self._run(message))
            if message.message_id:
                self._remember(message.message_id, answer)
            else:
                self._unnamed.add(answer)
                answer.add_done_callback(self._unnamed.discard)
        return await asyncio.shield(answer)

    async def _run(self, message: Message) -> MessageAck:
        return await self._handle(message)

    def _remember(self, message_id: str, answer: asyncio.Task[MessageAck]) -> None:
        self._answers[message_id] = answer

        def settle(done: asyncio.Task[MessageAck]) -> None:
            if done.cancelled() or done.exception() is not None or done.result().status == Ack.QUEUED:
                self._answers.pop(message_id, None)

        answer.add_done_callback(settle)
        # What is still at work stays, however many there are: forgetting it would run it twice.
        spare = len(self._answers) - self._ids_max
        if spare > 0:
            settled = (known for known, answer in self._answers.items() if answer.done())
            for old in list(itertools.islice(settled, spare)):
                del self._answers[old]

    async def stop(self, seconds: float) -> None:
        """Lets handlers finish for so long, then cancels them."""
        open_ones = {answer for answer in (*self._answers.values(), *self._unnamed) if not answer.done()}
        if open_ones:
            _, late = await asyncio.wait(open_ones, timeout=seconds)
            for answer in late:
                answer.cancel()
