"""Execute: results, calls over the stream, questions, and what a kernel should not send."""

from __future__ import annotations

import asyncio
import json

import grpc
import grpc.aio
import pytest
from driver import Stream, Worker, driven, until

from skep import SyscallError, Task, TaskResult
from skep.limits import CALLS_OPEN_MAX, MESSAGE_BYTES_MAX
from skep.wire import agent_pb2 as wire


async def test_a_task_arrives_whole_and_its_result_goes_back() -> None:
    seen: list[Task] = []

    async def work(agent: Worker, task: Task) -> TaskResult:
        seen.append(task)
        return TaskResult(7, "seven", {"a": "art-1"}, {"m": "n"})

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        last = await kernel.run(
            '{"product": "kettle", "threshold": 3}',
            task_id="t-5",
            params={"threshold": "4"},
            priority=wire.PRIORITY_HIGH,
            timeout_seconds=9,
            context=b"\x01",
            parent_task_id="t-1",
        )
        task = seen[0]
        assert (task.task_id, task.priority, task.timeout_seconds, task.context) == ("t-5", "high", 9, b"\x01")
        assert (task.parent_task_id, task.inputs) == ("t-1", {"product": "kettle", "threshold": "4"})
        assert (last.type, last.task_id, last.progress_percent) == (wire.PROGRESS_COMPLETED, "t-5", 100.0)
        assert TaskResult.read(last.result) == TaskResult(7, "seven", {"a": "art-1"}, {"m": "n"})


async def test_an_exception_fails_the_task_with_its_text() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        raise RuntimeError("the shop is closed")

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        last = await kernel.run()
        assert (last.type, last.message, last.result.exit_code) == (wire.PROGRESS_FAILED, "the shop is closed", 1)


@pytest.mark.parametrize("wrong", [None, "text", 5, TaskResult(output=3), TaskResult(exit_code=2**40)])  # type: ignore[arg-type]
async def test_a_result_that_is_none_fails_the_task(wrong: object) -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        return wrong  # type: ignore[return-value]

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        last = await kernel.run()
        assert last.type == wire.PROGRESS_FAILED
        assert last.message


async def test_progress_comes_in_order_and_before_the_result() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        await agent.report_progress("begun")
        for step in range(600):
            await agent.report_progress(f"step {step}", step / 6)
        return TaskResult()

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        reports = await kernel.execute().rest()
        assert [report.message for report in reports] == ["begun", *(f"step {step}" for step in range(600)), "completed"]
        assert reports[0].progress_percent == 0.0
        assert {report.task_id for report in reports} == {"t-1"}


async def test_calls_at_the_same_time_get_their_own_results_in_any_order() -> None:
    names = [f"child-{number}" for number in range(20)]

    async def work(agent: Worker, task: Task) -> TaskResult:
        pids = await asyncio.gather(*(agent.spawn(name) for name in names))
        return TaskResult(output=json.dumps(pids))

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        stream = kernel.execute()
        calls = [(await stream.next()).syscalls[0] for _ in names]
        assert len({call.call_id for call in calls}) == 20
        for call in reversed(calls):
            stream.result(call.call_id, spawn=wire.SpawnResponse(success=True, child_pid=100 + int(call.spawn.name[6:])))
        last = (await stream.rest())[-1]
        assert json.loads(last.result.output) == list(range(100, 120))
        assert (await kernel.beat()).active_children == 20


async def test_no_more_calls_are_open_than_the_kernel_takes() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        pids = await asyncio.gather(*(agent.spawn(f"{number}") for number in range(200)))
        return TaskResult(output=str(sum(pids)))

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        stream = kernel.execute()
        calls = [(await stream.next()).syscalls[0] for _ in range(CALLS_OPEN_MAX)]
        # A heartbeat after them shows that the agent had its turn and held the next call back.
        await kernel.beat()
        following = asyncio.ensure_future(stream.next())
        await kernel.beat()
        assert not following.done()
        answered = 0
        for call in calls:
            stream.result(call.call_id, spawn=wire.SpawnResponse(success=True, child_pid=1))
            answered += 1
        report = await following
        while report.type == wire.PROGRESS_SYSCALL:
            stream.result(report.syscalls[0].call_id, spawn=wire.SpawnResponse(success=True, child_pid=1))
            answered += 1
            report = await stream.next()
        assert (report.result.output, answered) == ("200", 200)


async def test_a_cancelled_call_keeps_its_place_until_the_kernel_answers() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        async with asyncio.TaskGroup() as group:
            given_up = [group.create_task(agent.spawn("given up")) for _ in range(CALLS_OPEN_MAX)]
            await until(lambda: len(agent._skep.running[0]._calls) == CALLS_OPEN_MAX)
            await agent.report_progress("all sent")
            for one in given_up:
                one.cancel()
        return TaskResult(output=str(await agent.spawn("next")))

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        stream = kernel.execute()
        reports = [await stream.next() for _ in range(CALLS_OPEN_MAX + 1)]
        following = asyncio.ensure_future(stream.next())
        await kernel.beat()
        assert not following.done()
        calls = [call for report in reports for call in report.syscalls]
        stream.result(calls[0].call_id, spawn=wire.SpawnResponse(success=True, child_pid=1))
        stream.result((await following).syscalls[0].call_id, spawn=wire.SpawnResponse(success=True, child_pid=2))
        assert (await stream.rest())[-1].result.output == "2"


async def test_a_refused_call_raises_the_kernels_words_and_the_task_goes_on() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        with pytest.raises(SyscallError, match="^spawn failed: denied by rule tasks-do-not-spawn$"):
            await agent.spawn("child")
        return TaskResult(output="went on")

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        stream = kernel.execute()
        call = (await stream.next()).syscalls[0]
        stream.result(call.call_id, spawn=wire.SpawnResponse(error="denied by rule tasks-do-not-spawn"))
        assert (await stream.rest())[-1].result.output == "went on"


async def test_results_for_no_call_and_of_another_kind_do_no_harm() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        first = await agent.spawn("first")
        with pytest.raises(SyscallError, match="answered with a result of kill"):
            await agent.spawn("second")
        return TaskResult(output=str(first))

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        stream = kernel.execute()
        call = (await stream.next()).syscalls[0]
        for unknown in ("", "call-999", "x" * 100_000):
            stream.result(unknown, spawn=wire.SpawnResponse(success=True, child_pid=666))
        stream.give(wire.ExecuteInput(user_input="nobody asked"))
        stream.give(wire.ExecuteInput())
        stream.give(wire.ExecuteInput(task=wire.TaskRequest(task_id="second task")))
        stream.result(call.call_id, spawn=wire.SpawnResponse(success=True, child_pid=9))
        second = (await stream.next()).syscalls[0]
        stream.result(call.call_id, spawn=wire.SpawnResponse(success=True, child_pid=10))
        stream.result(second.call_id, kill=wire.KillResponse(success=True))
        assert (await stream.rest())[-1].result.output == "9"


@pytest.mark.parametrize(
    "first",
    [wire.ExecuteInput(), wire.ExecuteInput(user_input="hello"), wire.ExecuteInput(syscall_result=wire.SyscallResult(call_id="c"))],
)
async def test_a_stream_begins_with_its_task(first: wire.ExecuteInput) -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        return TaskResult()

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        stream = Stream(kernel.stub)
        stream.give(first)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stream.rest()
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert (await kernel.run()).type == wire.PROGRESS_COMPLETED


async def test_an_unknown_priority_is_refused() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        return TaskResult()

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await kernel.run(priority=77)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_calls_that_wait_fail_when_the_kernel_closes_its_half() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        outcomes = await asyncio.gather(agent.spawn("a"), agent.list_siblings(), return_exceptions=True)
        return TaskResult(output=" | ".join(str(one) for one in outcomes))

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        stream = kernel.execute()
        await stream.next()
        await stream.next()
        stream.close()
        last = (await stream.rest())[-1]
        assert last.type == wire.PROGRESS_COMPLETED
        assert last.result.output.count("the kernel closed the stream") == 2


async def test_calls_that_wait_for_their_turn_fail_too() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        ends = await asyncio.gather(*(agent.spawn("x") for _ in range(CALLS_OPEN_MAX + 20)), return_exceptions=True)
        return TaskResult(output=str(sum(isinstance(end, SyscallError) for end in ends)))

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        stream = kernel.execute()
        for _ in range(CALLS_OPEN_MAX):
            await stream.next()
        stream.close()
        assert (await stream.rest())[-1].result.output == str(CALLS_OPEN_MAX + 20)


async def test_a_cancelled_call_is_forgotten_and_its_result_dropped() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        try:
            async with asyncio.timeout(0.05):
                await agent.spawn("late")
        except TimeoutError:
            pass
        return TaskResult(output=str(await agent.spawn("next")))

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        stream = kernel.execute()
        late, following = (await stream.next()).syscalls[0], (await stream.next()).syscalls[0]
        stream.result(late.call_id, spawn=wire.SpawnResponse(success=True, child_pid=1))
        stream.result(following.call_id, spawn=wire.SpawnResponse(success=True, child_pid=2))
        assert (await stream.rest())[-1].result.output == "2"


async def test_questions_are_asked_one_at_a_time() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        return TaskResult(output=",".join(await asyncio.gather(agent.ask("one?"), agent.ask("two?"))))

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        stream = kernel.execute()
        for question, answer in (("one?", "1"), ("two?", "2")):
            assert (await stream.next()).message == question
            stream.give(wire.ExecuteInput(user_input=answer))
        assert (await stream.rest())[-1].result.output == "1,2"


async def test_an_answer_is_what_the_person_wrote() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        return TaskResult(output=repr(await agent.ask("?")))

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        stream = kernel.execute()
        await stream.next()
        stream.give(wire.ExecuteInput(user_input=""))
        assert (await stream.rest())[-1].result.output == "''"


async def test_a_call_that_is_too_large_fails_alone() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        with pytest.raises(SyscallError, match=r"store failed: the message has \d+ bytes, more than") as refused:
            await agent.store("large", b"x" * MESSAGE_BYTES_MAX)
        assert refused.value.code == "RESOURCE_EXHAUSTED"
        return TaskResult(output=await agent.store("small", b"x"))

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        stream = kernel.execute()
        call = (await stream.next()).syscalls[0]
        assert call.store.key == "small"
        stream.result(call.call_id, store=wire.StoreArtifactResponse(success=True, artifact_id="art-1"))
        assert (await stream.rest())[-1].result.output == "art-1"


async def test_a_result_that_is_too_large_fails_the_task_and_says_so() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        return TaskResult(output="x" * (MESSAGE_BYTES_MAX + 1))

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        last = await kernel.run()
        assert last.type == wire.PROGRESS_FAILED
        assert "store it as an artifact" in last.message


async def test_a_large_task_is_read_and_a_larger_one_refused() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        return TaskResult(output=str(len(task.context)))

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        assert (await kernel.run(context=b"x" * (20 << 20))).result.output == str(20 << 20)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await kernel.run(context=b"x" * (65 << 20))
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await kernel.run()).result.output == "0"


async def test_what_belongs_to_a_task_is_refused_outside_one() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        return TaskResult()

    agent = Worker(work)
    async with driven(agent) as kernel:
        await kernel.init()
        with pytest.raises(SyscallError, match="no task runs here"):
            await agent.ask("?")
        with pytest.raises(SyscallError, match="no task runs here"):
            await agent.report_progress("x")
        with pytest.raises(SyscallError, match="runs under no kernel"):
            await agent.spawn("child")


async def test_code_that_a_task_left_behind_cannot_use_its_stream() -> None:
    left: list[asyncio.Task[object]] = []
    go = asyncio.Event()

    async def later(agent: Worker) -> object:
        await go.wait()
        return await agent.spawn("late")

    async def work(agent: Worker, task: Task) -> TaskResult:
        left.append(asyncio.create_task(later(agent)))
        return TaskResult()

    async with driven(Worker(work)) as kernel:
        await kernel.init()
        reports = await kernel.execute().rest()
        go.set()
        with pytest.raises(SyscallError, match="runs under no kernel"):
            await left[0]
        assert [report.type for report in reports] == [wire.PROGRESS_COMPLETED]


async def test_the_role_task_has_one_task() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        return TaskResult()

    async with driven(Worker(work)) as kernel:
        await kernel.init(wire.ROLE_TASK)
        assert (await kernel.run()).type == wire.PROGRESS_COMPLETED
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await kernel.run()
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        assert await asyncio.wait_for(kernel.service.ended, 5) == 0


async def test_of_two_streams_to_the_role_task_one_is_taken() -> None:
    async def work(agent: Worker, task: Task) -> TaskResult:
        await asyncio.sleep(0.05)
        return TaskResult()

    async with driven(Worker(work)) as kernel:
        await kernel.init(wire.ROLE_TASK)
        ends = await asyncio.gather(kernel.run(), kernel.run(), return_exceptions=True)
        refused = [end for end in ends if isinstance(end, grpc.aio.AioRpcError)]
        assert [one.code() for one in refused] == [grpc.StatusCode.FAILED_PRECONDITION]
        assert [end.type for end in ends if isinstance(end, wire.TaskProgress)] == [wire.PROGRESS_COMPLETED]
