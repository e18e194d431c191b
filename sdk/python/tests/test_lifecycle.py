"""Init, Heartbeat, Shutdown."""

from __future__ import annotations

import asyncio
import base64

import grpc
import grpc.aio
import pytest
from driver import driven, until

from skep import Agent, AgentConfig, Limits, Task, TaskResult
from skep.limits import SNAPSHOT_BYTES_MAX
from skep.service import EXIT_INIT_FAILED, EXIT_OK
from skep.wire import agent_pb2 as wire


class Recorder(Agent):
    """Writes down what happens to it."""

    def __init__(self) -> None:
        # No super().__init__(): an author may forget it.
        self.seen: list[object] = []
        self.go = asyncio.Event()

    async def on_init(self, config: AgentConfig) -> None:
        self.seen.append(("init", config.name))

    async def on_restore(self, state: bytes) -> None:
        self.seen.append(("restore", state))

    async def handle_task(self, task: Task) -> TaskResult:
        await self.go.wait()
        return TaskResult(output=task.description)

    async def on_shutdown(self, reason: str) -> bytes | None:
        self.seen.append(("shutdown", reason))
        return b"state of " + reason.encode()


class Broken(Agent):
    async def on_init(self, config: AgentConfig) -> None:
        raise RuntimeError("no key")


async def test_init_tells_the_agent_who_it_is() -> None:
    async with driven(Recorder()) as kernel:
        answer = await kernel.init(
            wire.ROLE_LEAD,
            cognitive_tier=wire.COG_TACTICAL,
            config=wire.AgentConfig(name="lead", system_prompt="be brief", model="sonnet", metadata={"a": "b"}),
            limits=wire.ResourceLimits(max_children=3, max_context_tokens=1000),
            tools=[wire.Tool(name="shell", description="runs", config={"c": "d"}, allowed_paths=["/tmp"])],
            env={"LANG": "C"},
        )
        agent = kernel.agent
        assert answer.ready
        assert (agent.pid, agent.ppid, agent.user, agent.role, agent.tier) == (7, 1, "leo", "lead", "tactical")
        assert agent.config == AgentConfig("lead", "be brief", "sonnet", {"a": "b"})
        assert agent.limits == Limits(max_children=3, max_context_tokens=1000)
        assert (agent.tools[0].name, agent.tools[0].allowed_paths) == ("shell", ("/tmp",))
        assert dict(agent.env) == {"LANG": "C"}


async def test_init_says_that_ids_are_remembered() -> None:
    async with driven(Recorder()) as kernel:
        call = kernel.stub.Init(wire.InitRequest(pid=7))
        await call
        assert ("x-skep-remembers-ids", "1") in [(str(key), value) for key, value in await call.trailing_metadata()]


async def test_a_failed_init_is_told_and_ends_the_process() -> None:
    async with driven(Broken()) as kernel:
        answer = await kernel.init()
        assert (answer.ready, answer.error) == (False, "no key")
        assert await asyncio.wait_for(kernel.service.ended, 5) == EXIT_INIT_FAILED


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (wire.InitRequest(pid=0), "no process has the pid 0"),
        (wire.InitRequest(pid=7, config=wire.AgentConfig(metadata={"skep.state_snapshot": "%%%"})), "is not base64"),
    ],
)
async def test_an_init_that_makes_no_sense_is_refused(request_: wire.InitRequest, error: str) -> None:
    agent = Recorder()
    async with driven(agent) as kernel:
        answer = await kernel.stub.Init(request_)
        assert not answer.ready
        assert error in answer.error
        assert agent.seen == []


async def test_a_role_that_the_contract_does_not_have_is_refused() -> None:
    async with driven(Recorder()) as kernel:
        # An open enum carries any number; 0 would be the kernel's own role.
        answer = await kernel.init(role=99)  # type: ignore[arg-type]
        assert not answer.ready
        assert "99 is not the number of a role" in answer.error


async def test_init_again_begins_once_and_another_pid_is_refused() -> None:
    agent = Recorder()
    async with driven(agent) as kernel:
        first, again = await asyncio.gather(kernel.init(), kernel.init())
        assert first.ready
        assert again.ready
        assert len(agent.seen) == 1
        other = await kernel.init(pid=8)
        assert not other.ready
        assert "this is process 7" in other.error
        assert agent.pid == 7


async def test_state_comes_back_after_on_init() -> None:
    agent = Recorder()
    state = base64.b64encode(b"\x00kept\xff").decode()
    async with driven(agent) as kernel:
        await kernel.init(config=wire.AgentConfig(name="n", metadata={"skep.state_snapshot": state}))
        assert agent.seen == [("init", "n"), ("restore", b"\x00kept\xff")]


async def test_nothing_is_restored_where_nothing_was_kept() -> None:
    agent = Recorder()
    async with driven(agent) as kernel:
        await kernel.init()
        assert agent.seen == [("init", "")]


async def test_nothing_runs_before_init() -> None:
    async with driven(Recorder()) as kernel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await kernel.execute("early").rest()
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await kernel.deliver("m-1")
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION


async def test_heartbeat_is_idle_running_idle() -> None:
    agent = Recorder()
    async with driven(agent) as kernel:
        await kernel.init()
        assert (await kernel.beat()).state == wire.STATE_IDLE
        stream = kernel.execute("x", task_id="t-9")
        await until(lambda: agent._skep.running)
        beat = await kernel.beat()
        assert (beat.state, beat.current_task_id) == (wire.STATE_RUNNING, "t-9")
        agent.go.set()
        await stream.rest()
        beat = await kernel.beat()
        assert (beat.state, beat.current_task_id) == (wire.STATE_IDLE, "")


class Asker(Agent):
    async def handle_task(self, task: Task) -> TaskResult:
        if task.description == "escalate":
            return TaskResult(output=await self.escalate("stuck"))
        if task.description == "child":
            ended = await self.wait_child(9)
            return TaskResult(exit_code=ended.exit_code)
        return TaskResult(output=await self.ask("which colour?"))


async def test_heartbeat_is_blocked_while_a_person_is_asked() -> None:
    async with driven(Asker()) as kernel:
        await kernel.init()
        stream = kernel.execute()
        question = await stream.next()
        assert (question.type, question.message) == (wire.PROGRESS_NEEDS_INPUT, "which colour?")
        assert (await kernel.beat()).state == wire.STATE_BLOCKED
        stream.give(wire.ExecuteInput(user_input="blue"))
        assert (await stream.rest())[-1].result.output == "blue"
        assert (await kernel.beat()).state == wire.STATE_IDLE


async def test_heartbeat_is_blocked_while_a_child_is_waited_for() -> None:
    async with driven(Asker()) as kernel:
        await kernel.init()
        stream = kernel.execute("child")
        call = (await stream.next()).syscalls[0]
        assert call.wait_child.target_pid == 9
        assert (await kernel.beat()).state == wire.STATE_BLOCKED
        stream.result(call.call_id, wait_child=wire.WaitChildResponse(success=True, pid=9, exit_code=3))
        assert (await stream.rest())[-1].result.exit_code == 3


async def test_heartbeat_is_blocked_while_an_escalation_is_open() -> None:
    async with driven(Asker()) as kernel:
        await kernel.init()
        stream = kernel.execute("escalate")
        call = (await stream.next()).syscalls[0]
        assert (await kernel.beat()).state == wire.STATE_BLOCKED
        stream.result(call.call_id, escalate=wire.EscalateResponse(received=True, handled_by_pid=1, response="go on"))
        assert (await stream.rest())[-1].result.output == "go on"


@pytest.mark.parametrize(
    ("role", "state"),
    [(wire.ROLE_ARCHITECT, wire.STATE_SLEEPING), (wire.ROLE_TASK, wire.STATE_ZOMBIE), (wire.ROLE_LEAD, wire.STATE_IDLE)],
)
async def test_heartbeat_after_a_task_is_by_role(role: wire.AgentRole.ValueType, state: wire.AgentState.ValueType) -> None:
    agent = Recorder()
    agent.go.set()
    async with driven(agent) as kernel:
        await kernel.init(role)
        assert (await kernel.beat()).state == wire.STATE_IDLE
        await kernel.run("x")
        assert (await kernel.beat()).state == state


async def test_heartbeat_tells_tokens_context_and_children() -> None:
    async with driven(Recorder()) as kernel:
        await kernel.init(limits=wire.ResourceLimits(max_context_tokens=1000))
        kernel.agent.report_usage(tokens=300, context_tokens=250)
        kernel.agent.report_usage(tokens=50)
        kernel.agent._skep.children.update({8, 9})
        beat = await kernel.beat()
        assert (beat.tokens_consumed, beat.context_usage_percent, beat.active_children) == (350, 25.0, 2)
        with pytest.raises(ValueError, match="only add up"):
            kernel.agent.report_usage(tokens=-1)


async def test_shutdown_returns_the_state_and_ends_the_process() -> None:
    agent = Recorder()
    async with driven(agent) as kernel:
        await kernel.init()
        answer = await kernel.stub.Shutdown(wire.ShutdownRequest(reason=wire.SHUTDOWN_BUDGET_EXCEEDED))
        assert answer.state_snapshot == b"state of budget_exceeded"
        assert not answer.HasField("partial_result")
        assert await kernel.service.ended == EXIT_OK
        assert (await kernel.beat()).state == wire.STATE_DEAD


async def test_a_reason_that_nobody_knows_still_saves_the_state() -> None:
    async with driven(Recorder()) as kernel:
        await kernel.init()
        answer = await kernel.stub.Shutdown(wire.ShutdownRequest(reason=42))  # type: ignore[arg-type]
        assert answer.state_snapshot == b"state of unknown"


async def test_shutdown_twice_asks_the_agent_once() -> None:
    agent = Recorder()
    async with driven(agent) as kernel:
        await kernel.init()
        request = wire.ShutdownRequest(reason=wire.SHUTDOWN_USER_REQUEST)
        answers = await asyncio.gather(kernel.stub.Shutdown(request), kernel.stub.Shutdown(request))
        assert {answer.state_snapshot for answer in answers} == {b"state of user_request"}
        assert agent.seen.count(("shutdown", "user_request")) == 1


class Slow(Agent):
    """Keeps what it has, and does not end when it is told to."""

    def __init__(self) -> None:
        self.is_stubborn = False

    async def handle_task(self, task: Task) -> TaskResult:
        self.keep_partial(TaskResult(exit_code=5, output="half"))
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if not self.is_stubborn:
                    raise

    async def on_shutdown(self, reason: str) -> bytes | None:
        if self.is_stubborn:
            await asyncio.sleep(60)
        return b"saved"


async def test_shutdown_stops_the_task_and_returns_what_it_kept() -> None:
    agent = Slow()
    async with driven(agent) as kernel:
        await kernel.init()
        stream = kernel.execute()
        await until(lambda: agent._skep.running)
        answer = await kernel.stub.Shutdown(wire.ShutdownRequest(reason=wire.SHUTDOWN_PARENT_DIED, grace_period_seconds=4))
        assert (answer.partial_result.exit_code, answer.partial_result.output) == (5, "half")
        assert answer.state_snapshot == b"saved"
        last = (await stream.rest())[-1]
        assert (last.type, last.message) == (wire.PROGRESS_FAILED, "shutdown: parent_died")


async def test_shutdown_does_not_wait_for_an_agent_that_will_not_end() -> None:
    agent = Slow()
    agent.is_stubborn = True
    async with driven(agent) as kernel:
        await kernel.init()
        stream = kernel.execute()
        await until(lambda: agent._skep.running)
        answer = await asyncio.wait_for(kernel.stub.Shutdown(wire.ShutdownRequest(grace_period_seconds=1)), 5)
        assert answer.state_snapshot == b""
        assert answer.partial_result.output == "half"
        agent.is_stubborn = False
        stream.call.cancel()
        await until(lambda: not agent._skep.running)


class ForgetsHow(Recorder):
    async def on_shutdown(self, reason: str) -> bytes | None:
        raise OSError("disk full")


async def test_an_on_shutdown_that_fails_keeps_nothing_and_still_ends() -> None:
    async with driven(ForgetsHow()) as kernel:
        await kernel.init()
        answer = await kernel.stub.Shutdown(wire.ShutdownRequest())
        assert answer.state_snapshot == b""
        assert await kernel.service.ended == EXIT_OK


@pytest.mark.parametrize(("more", "kept"), [(0, SNAPSHOT_BYTES_MAX), (1, 0)])
async def test_a_state_that_would_not_come_back_is_not_kept(more: int, kept: int) -> None:
    class Large(Recorder):
        async def on_shutdown(self, reason: str) -> bytes | None:
            return bytes(SNAPSHOT_BYTES_MAX + more)

    async with driven(Large()) as kernel:
        await kernel.init()
        assert len((await kernel.stub.Shutdown(wire.ShutdownRequest())).state_snapshot) == kept


async def test_no_task_and_no_message_after_shutdown() -> None:
    async with driven(Recorder()) as kernel:
        await kernel.init()
        await kernel.stub.Shutdown(wire.ShutdownRequest())
        for attempt in (kernel.execute("late").rest(), kernel.deliver("m-1")):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await attempt
            assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
