"""DeliverMessage: each id is handled once."""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio
import pytest
from driver import driven, until

from skep import ACK_ESCALATE, Agent, Message, MessageAck
from skep.inbox import Inbox
from skep.wire import agent_pb2 as wire


class Listener(Agent):
    def __init__(self) -> None:
        self.heard: list[Message] = []
        self.go = asyncio.Event()
        self.failures = 0
        self.ack: object = MessageAck(reply="thanks")

    async def on_message(self, message: Message) -> MessageAck:
        self.heard.append(message)
        await self.go.wait()
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        return self.ack  # type: ignore[return-value]


async def test_a_message_arrives_whole_and_is_answered() -> None:
    agent = Listener()
    agent.go.set()
    agent.ack = MessageAck(status=ACK_ESCALATE, reply="to the boss")
    async with driven(agent) as kernel:
        await kernel.init()
        ack = await kernel.deliver(
            "m-1",
            from_pid=3,
            from_name="dora",
            relation=wire.REL_SIBLING,
            type="news",
            priority=wire.PRIORITY_LOW,
            payload=b"\xff",
            timestamp=5,
            requires_ack=True,
            reply_to="r-1",
        )
        assert (ack.message_id, ack.status, ack.reply) == ("m-1", wire.ACK_ESCALATE, "to the boss")
        assert agent.heard == [Message("m-1", 3, "dora", "sibling", "news", "low", b"\xff", 5, True, "r-1")]


async def test_a_message_that_comes_again_gets_the_first_answer() -> None:
    agent = Listener()
    agent.go.set()
    async with driven(agent) as kernel:
        await kernel.init()
        first = await kernel.deliver("m-1")
        agent.ack = MessageAck(reply="another")
        assert await kernel.deliver("m-1") == first
        assert (await kernel.deliver("m-2")).reply == "another"
        assert [message.message_id for message in agent.heard] == ["m-1", "m-2"]


async def test_deliveries_at_the_same_time_are_one() -> None:
    agent = Listener()
    async with driven(agent) as kernel:
        await kernel.init()
        deliveries = [asyncio.create_task(kernel.deliver("m-1")) for _ in range(5)]
        await until(lambda: agent.heard)
        agent.go.set()
        assert {(await delivery).reply for delivery in deliveries} == {"thanks"}
        assert len(agent.heard) == 1


async def test_a_deadline_of_the_kernel_cancels_no_work() -> None:
    agent = Listener()
    async with driven(agent) as kernel:
        await kernel.init()
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await kernel.stub.DeliverMessage(wire.AgentMessage(message_id="m-1"), timeout=0.2)
        assert late.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        again = asyncio.create_task(kernel.deliver("m-1"))
        agent.go.set()
        assert (await again).reply == "thanks"
        assert len(agent.heard) == 1


async def test_a_handler_that_failed_is_tried_again() -> None:
    agent = Listener()
    agent.go.set()
    agent.failures = 1
    async with driven(agent) as kernel:
        await kernel.init()
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await kernel.deliver("m-1")
        assert (failed.value.code(), failed.value.details()) == (grpc.StatusCode.INTERNAL, "not now")
        assert (await kernel.deliver("m-1")).reply == "thanks"
        assert len(agent.heard) == 2


@pytest.mark.parametrize("wrong", [None, "yes", MessageAck(status=9)])
async def test_an_answer_that_is_none_is_an_error(wrong: object) -> None:
    agent = Listener()
    agent.go.set()
    agent.ack = wrong
    async with driven(agent) as kernel:
        await kernel.init()
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await kernel.deliver("m-1")
        assert failed.value.code() == grpc.StatusCode.INTERNAL


async def test_messages_without_an_id_are_all_handled() -> None:
    agent = Listener()
    agent.go.set()
    async with driven(agent) as kernel:
        await kernel.init()
        await kernel.deliver("")
        await kernel.deliver("")
        assert len(agent.heard) == 2


@pytest.mark.parametrize("field", ["relation", "priority"])
async def test_a_message_with_unknown_numbers_is_refused(field: str) -> None:
    agent = Listener()
    async with driven(agent) as kernel:
        await kernel.init()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await kernel.deliver("m-1", **{field: 42})
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert agent.heard == []


async def test_only_so_many_ids_are_kept_and_none_that_is_at_work() -> None:
    handled: list[str] = []
    go = asyncio.Event()

    async def handle(message: Message) -> MessageAck:
        handled.append(message.message_id)
        if message.message_id == "slow":
            await go.wait()
        return MessageAck()

    inbox = Inbox(handle, ids_max=3)
    slow = asyncio.create_task(inbox.deliver(Message("slow")))
    await until(lambda: handled)
    for number in range(10):
        await inbox.deliver(Message(f"m-{number}"))
    assert len(inbox._answers) == 3
    again = asyncio.create_task(inbox.deliver(Message("slow")))
    go.set()
    await asyncio.gather(slow, again)
    assert handled.count("slow") == 1
    await inbox.deliver(Message("m-9"))
    assert handled.count("m-9") == 1
    await inbox.deliver(Message("m-0"))
    assert handled.count("m-0") == 2
