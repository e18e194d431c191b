"""Interrupt, and a kernel that goes away: how a task is stopped, and what is left of it."""

from __future__ import annotations

import asyncio

import pytest
from driver import Worker, driven, until

from skep import Task, TaskResult
from skep.wire import agent_pb2 as wire


async def test_interrupt_cancels_the_task_and_returns_what_it_kept() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        agent.keep_partial(TaskResult(exit_code=9, output="three of five", artifacts={"draft": "art-3"}))
        await asyncio.sleep(60)
        return TaskResult()

    agent = Worker(work)
    async with driven(agent) as kernel:
        await kernel.init()
        stream = kernel.execute()
        await until(lambda: agent._skep.running and agent._skep.running[0].kept)
        answer = await kernel.stub.Interrupt(wire.InterruptRequest(task_id="t-1", reason="user"))
        assert answer.acknowledged
        assert TaskResult.read(answer.partial_result) == TaskResult(9, "three of five", {"draft": "art-3"})
        last = (await stream.rest())[-1]
        assert (last.type, last.message, last.result.output) == (wire.PROGRESS_FAILED, "interrupted: user", "three of five")
        assert (await kernel.beat()).state == wire.STATE_IDLE


async def test_a_task_may_return_its_partial_result_itself() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return TaskResult(exit_code=2, output="cleaned up")
        return TaskResult()

    agent = Worker(work)
    async with driven(agent) as kernel:
        await kernel.init()
        stream = kernel.execute()
        await until(lambda: agent._skep.running)
        answer = await kernel.stub.Interrupt(wire.InterruptRequest())
        assert (answer.acknowledged, answer.partial_result.output) == (True, "cleaned up")
        last = (await stream.rest())[-1]
        assert (last.type, last.message, last.result.exit_code) == (wire.PROGRESS_FAILED, "interrupted", 2)


async def test_a_task_that_kept_nothing_ends_with_130() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        await agent.wait_child(9)
        return TaskResult()

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        stream = kernel.execute()
        await stream.next()
        answer = await kernel.stub.Interrupt(wire.InterruptRequest())
        assert (answer.partial_result.exit_code, answer.partial_result.output) == (130, "")
        assert (await stream.rest())[-1].result.exit_code == 130


async def test_interrupt_takes_the_named_task_only() -> None:
    go = asyncio.Event()

    async def work(agent: Worker, task: Task) -> TaskResult:
        await go.wait()
        return TaskResult(output=task.task_id)

    agent = Worker(work)
    async with driven(agent) as kernel:
        await kernel.init()
        streams = [kernel.execute(task_id=f"t-{number}") for number in range(3)]
        await until(lambda: len(agent._skep.running) == 3)
        assert not (await kernel.stub.Interrupt(wire.InterruptRequest(task_id="t-9"))).acknowledged
        assert (await kernel.stub.Interrupt(wire.InterruptRequest(task_id="t-1"))).acknowledged
        go.set()
        ends = [(await stream.rest())[-1].type for stream in streams]
        assert ends == [wire.PROGRESS_COMPLETED, wire.PROGRESS_FAILED, wire.PROGRESS_COMPLETED]
        assert not (await kernel.stub.Interrupt(wire.InterruptRequest())).acknowledged


@pytest.mark.parametrize("waits_for", ["the kernel", "something else"])
async def test_a_kernel_that_goes_away_stops_the_task(waits_for: str) -> None:
    ended = asyncio.Event()

    async def work(agent: Worker, task: Task) -> TaskResult:
        try:
            await agent.report_progress("begun")
            await (agent.spawn("never answered") if waits_for == "the kernel" else asyncio.sleep(3600))
        finally:
            ended.set()
        return TaskResult()

    agent = Worker(work)
    async with driven(agent) as kernel:
        await kernel.init()
        stream = kernel.execute()
        await stream.next()
        stream.call.cancel()
        await asyncio.wait_for(ended.wait(), 5)
        await until(lambda: not agent._skep.running)
        assert (await kernel.beat()).state == wire.STATE_IDLE
