"""Every method of CoreService against a real kernel, by a client that knows the protos alone.

Arguments: what to do, then addresses. Prints a line for each thing that was found to be true; stops at the first that is not.
"""

import sys
import threading
import time

import agent_pb2 as agent
import core_pb2 as core
import core_pb2_grpc
import grpc

TIMEOUT = 20


class Kernel:
    """A stub that speaks for one process."""

    def __init__(self, address, pid=None, secret=None):
        self.stub = core_pb2_grpc.CoreServiceStub(grpc.insecure_channel(address))
        self.metadata = [("x-hivekernel-pid", str(pid))] if pid is not None else []
        if secret:
            self.metadata.append(("x-skep-secret", secret))

    def __getattr__(self, method):
        call = getattr(self.stub, method)
        return lambda request, timeout=TIMEOUT: call(request, metadata=self.metadata, timeout=timeout)


def refused(call, request):
    """The code and the words of a call that must be refused."""
    try:
        answer = call(request)
        list(answer) if hasattr(answer, "cancel") else None
    except grpc.RpcError as error:
        return error.code().name, error.details()
    raise AssertionError(f"{request} was answered: {answer}")


def spawn(kernel, name, role, tier=agent.COG_OPERATIONAL, **more):
    answer = kernel.SpawnChild(agent.SpawnRequest(name=name, role=role, cognitive_tier=tier, **more))
    assert answer.success, answer.error
    assert answer.error == ""
    return answer.child_pid


def eventually(what, found):
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        if found():
            return
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen")


def done(method):
    print(method, flush=True)


def every_method(unix, tcp):
    king = Kernel(unix, 1)
    info = king.GetProcessInfo(core.ProcessInfoRequest(pid=1))
    assert (info.name, info.role, info.state, info.cognitive_tier) == ("king", agent.ROLE_KERNEL, agent.STATE_RUNNING, agent.COG_STRATEGIC), info
    assert king.GetProcessInfo(core.ProcessInfoRequest()).pid == 1

    limits = agent.ResourceLimits(max_children=3, max_tokens_total=600_000)
    queen_pid = spawn(king, "queen", agent.ROLE_DAEMON, agent.COG_TACTICAL, limits=limits, model="sonnet")
    queen = Kernel(tcp, queen_pid)
    first_pid = spawn(queen, "first", agent.ROLE_WORKER, limits=agent.ResourceLimits(max_tokens_total=1000, max_children=1))
    second_pid = spawn(queen, "second", agent.ROLE_WORKER, limits=agent.ResourceLimits(max_tokens_total=1000, max_children=1))
    first, second = Kernel(tcp, first_pid), Kernel(tcp, second_pid)
    answer = first.SpawnChild(agent.SpawnRequest(name="x", role=agent.ROLE_WORKER, cognitive_tier=agent.COG_OPERATIONAL))
    assert not answer.success and "denied" in answer.error and "only tasks" in answer.error, answer
    # The first role of the enumeration is what a client gets that says none.
    answer = first.SpawnChild(agent.SpawnRequest(name="x"))
    assert not answer.success and "denied" in answer.error, answer
    done("SpawnChild")

    info = first.GetProcessInfo(core.ProcessInfoRequest())
    assert (info.pid, info.ppid, info.name, info.role, info.state) == (first_pid, queen_pid, "first", agent.ROLE_WORKER, agent.STATE_IDLE), info
    assert refused(first.GetProcessInfo, core.ProcessInfoRequest(pid=9999)) == ("NOT_FOUND", "process 9999 not found")
    assert king.GetProcessInfo(core.ProcessInfoRequest(pid=queen_pid)).child_count == 2
    done("GetProcessInfo")

    below = king.ListChildren(core.ListChildrenRequest(recursive=True)).children
    assert [child.pid for child in below] == [queen_pid, first_pid, second_pid], below
    assert [child.pid for child in king.ListChildren(core.ListChildrenRequest()).children] == [queen_pid]
    assert not king.ListChildren(core.ListChildrenRequest(recursive=True, filter_state=agent.STATE_ZOMBIE)).children
    done("ListChildren")

    siblings = first.ListSiblings(agent.ListSiblingsRequest()).siblings
    assert [(one.pid, one.name, one.role, one.state) for one in siblings] == [(second_pid, "second", "worker", "idle")], siblings
    done("ListSiblings")

    messages(king, queen, first, second, first_pid, second_pid, queen_pid)
    artifacts(king, queen, first, second, first_pid)
    budgets(unix, king, first, queen_pid)

    first.Log(agent.LogRequest(level=agent.LOG_INFO, message="working", fields={"event_type": "tool_call"}))
    done("Log")
    first.ReportMetric(core.MetricRequest(name="tokens_consumed", value=7))
    eventually("a claim counts", lambda: first.GetResourceUsage(core.ResourceUsageRequest()).tokens_consumed >= 7)
    done("ReportMetric")

    answer = king.ExecuteTask(core.ExecuteTaskRequest(target_pid=first_pid, description="do it", timeout_seconds=2))
    assert not answer.success and answer.error, answer
    done("ExecuteTask")

    cron(king, queen, queen_pid)
    events(king, tcp, queen, first_pid)
    ends(king, queen, first, second, first_pid, second_pid, queen_pid)


def messages(king, queen, first, second, first_pid, second_pid, queen_pid):
    request = agent.SendMessageRequest(to_pid=second_pid, type="news", priority=agent.PRIORITY_HIGH, payload=b"one", reply_to="msg-0")
    sent = first.SendMessage(request)
    assert sent.delivered and sent.message_id.startswith("msg-"), sent
    inbox = second.ListInbox(core.ListInboxRequest())
    assert inbox.total == 1 and inbox.messages[0].message_id == sent.message_id, inbox
    # The parent sees what passes between its children.
    copy = queen.ListInbox(core.ListInboxRequest()).messages
    assert [(one.type, one.from_pid) for one in copy] == [("sibling_traffic:news", first_pid)], copy
    answer = first.SendMessage(agent.SendMessageRequest(to_pid=9999, type="x"))
    assert (answer.delivered, answer.error) == (False, "process 9999 not found"), answer
    answer = first.SendMessage(agent.SendMessageRequest(type="x"))
    assert not answer.delivered and "nobody" in answer.error, answer
    done("SendMessage")
    done("ListInbox")

    stream = second.Subscribe(core.SubscribeRequest(), timeout=None)
    message = next(stream)
    assert (message.message_id, message.type, message.payload, message.reply_to) == (sent.message_id, "news", b"one", "msg-0"), message
    assert (message.from_pid, message.from_name, message.relation) == (first_pid, "first", agent.REL_SIBLING), message
    assert message.priority == agent.PRIORITY_HIGH and abs(message.timestamp - time.time()) < 60, message
    stream.cancel()
    eventually("what was read is gone", lambda: not second.ListInbox(core.ListInboxRequest()).total)
    # A filter that nothing matches yields nothing, and what it passed by stays for others.
    king.SendMessage(agent.SendMessageRequest(to_pid=second_pid, type="noise", payload=b"two"))
    filtered = second.Subscribe(core.SubscribeRequest(type_filter="signal"), timeout=None)
    king.SendMessage(agent.SendMessageRequest(to_pid=second_pid, type="signal", payload=b"three"))
    message = next(filtered)
    assert (message.type, message.relation) == ("signal", agent.REL_SYSTEM), message
    filtered.cancel()
    eventually("noise waits", lambda: "noise" in [one.type for one in second.ListInbox(core.ListInboxRequest()).messages])
    # Whoever reads a queue gets what was sent there.
    assert first.SendMessage(agent.SendMessageRequest(to_queue="results", type="done", payload=b"four")).delivered
    queue = queen.Subscribe(core.SubscribeRequest(queue="results"), timeout=None)
    assert next(queue).payload == b"four"
    queue.cancel()
    done("Subscribe")


def artifacts(king, queen, first, second, first_pid):
    stored = first.StoreArtifact(agent.StoreArtifactRequest(key="k", content=b"mine", content_type="text/plain"))
    assert stored.success and stored.artifact_id.startswith("art-"), stored
    # A private key of one is nobody else's to overwrite, and each reads its own.
    assert second.StoreArtifact(agent.StoreArtifactRequest(key="k", content=b"other")).success
    shared = first.StoreArtifact(agent.StoreArtifactRequest(key="all/k", content=b"ours", visibility=agent.VIS_GLOBAL))
    assert shared.success
    answer = second.StoreArtifact(agent.StoreArtifactRequest(key="all/k", content=b"theirs", visibility=agent.VIS_GLOBAL))
    assert not answer.success and "denied" in answer.error, answer
    done("StoreArtifact")

    found = first.GetArtifact(agent.GetArtifactRequest(key="k"))
    assert (found.found, found.content, found.content_type, found.stored_by_pid) == (True, b"mine", "text/plain", first_pid), found
    assert second.GetArtifact(agent.GetArtifactRequest(key="k")).content == b"other"
    answer = second.GetArtifact(agent.GetArtifactRequest(artifact_id=stored.artifact_id))
    assert not answer.found and not answer.content and answer.error, answer
    assert second.GetArtifact(agent.GetArtifactRequest(artifact_id=shared.artifact_id)).content == b"ours"
    assert not first.GetArtifact(agent.GetArtifactRequest(key="nothing")).found
    done("GetArtifact")

    listed = second.ListArtifacts(core.ListArtifactsRequest(prefix="all/")).artifacts
    assert [(one.artifact_id, one.key, one.size_bytes, one.stored_by_pid) for one in listed] == [(shared.artifact_id, "all/k", 4, first_pid)], listed
    done("ListArtifacts")


def budgets(unix, king, first, queen_pid):
    usage = first.GetResourceUsage(core.ResourceUsageRequest())
    assert (usage.tokens_consumed, usage.tokens_remaining, usage.children_active, usage.children_max) == (0, 1000, 0, 1), usage
    done("GetResourceUsage")

    request = core.ResourceRequest(resource_type="tokens", amount=10, justification="more")
    code, words = refused(first.RequestResources, request)
    assert code == "PERMISSION_DENIED" and "proves nobody" in words, (code, words)
    # The control: who is proven is answered.
    assert king.RequestResources(request) is not None
    assert first.GetResourceUsage(core.ResourceUsageRequest()).tokens_remaining == 1000
    done("RequestResources")

    answer = first.Escalate(agent.EscalateRequest(issue="no disk left", severity=agent.ESC_ERROR))
    assert answer.received and answer.handled_by_pid == queen_pid, answer
    done("Escalate")


def cron(king, queen, queen_pid):
    add = lambda expression, action="message": king.AddCron(
        core.AddCronRequest(name="n", cron_expression=expression, action=action, target_pid=queen_pid, execute_description="hi", execute_params={"a": "b"})
    )
    added = add("0 3 * * 1-5")
    assert added.cron_id.startswith("cron-") and added.error == "", added
    for wrong in ["99 * * * *", "* * *", "soon"]:
        answer = add(wrong)
        assert answer.cron_id == "" and answer.error, (wrong, answer)
    assert add("* * * * *", "dance").error
    done("AddCron")

    [entry] = king.ListCron(core.ListCronRequest()).entries
    assert (entry.id, entry.action, entry.target_pid, entry.enabled) == (added.cron_id, "message", queen_pid, True), entry
    assert entry.next_run_ms > time.time() * 1000 and dict(entry.execute_params) == {"a": "b"}, entry
    done("ListCron")

    # Every second, as the dashboard's page does.
    every = add("* * * * * *")
    eventually("cron runs", lambda: "cron_task" in [one.type for one in queen.ListInbox(core.ListInboxRequest()).messages])
    [tick] = [one for one in queen.ListInbox(core.ListInboxRequest()).messages if one.type == "cron_task"][:1]
    assert (tick.from_pid, tick.from_name) == (1, "king") and b'"description"' in tick.payload, tick
    for cron_id in [every.cron_id, added.cron_id]:
        assert king.RemoveCron(core.RemoveCronRequest(cron_id=cron_id)).ok
    answer = king.RemoveCron(core.RemoveCronRequest(cron_id="cron-99"))
    assert not answer.ok and answer.error, answer
    assert not king.ListCron(core.ListCronRequest()).entries
    done("RemoveCron")


def events(king, tcp, queen, first_pid):
    heard = []
    stream = king.SubscribeEvents(core.SubscribeEventsRequest(), timeout=None)

    def hear():
        try:
            heard.extend(stream)
        except grpc.RpcError:
            pass

    listener = threading.Thread(target=hear, daemon=True)
    listener.start()
    pids = []
    # What happens from now on is heard, so something happens until it is.
    end = time.monotonic() + TIMEOUT
    while not any(event.type == "spawned" for event in heard) and time.monotonic() < end:
        pids.append(spawn(queen, "brief", agent.ROLE_TASK))
        assert king.KillChild(agent.KillRequest(target_pid=pids[-1])).success
        time.sleep(0.05)
    last = pids[-1]
    eventually("the end is heard", lambda: any(event.type in ("state_changed", "removed") and event.pid == last for event in heard))
    king.SendMessage(agent.SendMessageRequest(to_pid=first_pid, type="hello"))
    eventually("a message is heard", lambda: any(event.type == "message_sent" and event.message == "hello" for event in heard))
    [sent] = [event for event in heard if event.type == "message_sent" and event.message == "hello"]
    assert (sent.ppid, sent.role) == (first_pid, "first"), sent
    stream.cancel()
    listener.join()
    spawned = [event for event in heard if event.type == "spawned"]
    assert spawned[0].role == "task" and spawned[0].tier == "operational", spawned[0]
    assert all(event.pid != first_pid for event in spawned), "from now on is not from the beginning"
    numbers = [event.seq for event in heard]
    assert numbers == sorted(numbers), numbers
    # Taken up again from a number, everything after it comes once more, and nothing before it.
    at = spawned[0].seq
    again = king.SubscribeEvents(core.SubscribeEventsRequest(since_seq=at), timeout=None)
    expected = [(event.seq, event.type) for event in heard if event.seq > at]
    # In this order, because `zip` takes one more of the first.
    repeated = [(event.seq, event.type) for _, event in zip(expected, again)]
    assert repeated == expected, (repeated, expected)
    again.cancel()
    done("SubscribeEvents")


def ends(king, queen, first, second, first_pid, second_pid, queen_pid):
    late = queen.WaitChild(agent.WaitChildRequest(target_pid=first_pid, timeout_seconds=1))
    assert not late.success and late.error, late
    answer = first.WaitChild(agent.WaitChildRequest(target_pid=second_pid, timeout_seconds=1))
    assert not answer.success and answer.error, answer
    killed = queen.KillChild(agent.KillRequest(target_pid=first_pid))
    assert killed.success and list(killed.killed_pids) == [first_pid], killed
    waited = queen.WaitChild(agent.WaitChildRequest(target_pid=first_pid, timeout_seconds=5))
    assert waited.success and waited.pid == first_pid, waited
    done("WaitChild")

    # What a child had goes back to its parent, and the dead take no child's place: the same again fits, four times.
    large = agent.ResourceLimits(max_tokens_total=500_000, max_children=1)
    for _ in range(4):
        again = spawn(queen, "again", agent.ROLE_WORKER, limits=large)
        answer = queen.SpawnChild(agent.SpawnRequest(name="one too many", role=agent.ROLE_WORKER, cognitive_tier=agent.COG_OPERATIONAL, limits=large))
        assert not answer.success and "denied" in answer.error, answer
        assert king.KillChild(agent.KillRequest(target_pid=again)).success
    again = spawn(queen, "again", agent.ROLE_WORKER, limits=large)
    # Who is not there is not found, whoever asks; who is there and another's is denied.
    for caller in (king, queen):
        answer = caller.KillChild(agent.KillRequest(target_pid=9999))
        assert (answer.success, answer.error) == (False, "process 9999 not found"), answer
        answer = caller.WaitChild(agent.WaitChildRequest(target_pid=9999))
        assert (answer.success, answer.error) == (False, "process 9999 not found"), answer
        answer = caller.ExecuteTask(core.ExecuteTaskRequest(target_pid=9999, description="x"))
        assert (answer.success, answer.error) == (False, "process 9999 not found"), answer
    answer = second.KillChild(agent.KillRequest(target_pid=again))
    assert not answer.success and "denied" in answer.error, answer
    killed = king.KillChild(agent.KillRequest(target_pid=queen_pid, recursive=True))
    assert killed.success and set(killed.killed_pids) == {queen_pid, second_pid, again}, killed
    assert not [child for child in king.ListChildren(core.ListChildrenRequest(recursive=True)).children if child.state in (agent.STATE_IDLE, agent.STATE_RUNNING)]
    done("KillChild")


def identity(unix, tcp):
    """Nobody is believed who is not proven."""
    king = Kernel(unix, 1)
    pid = spawn(king, "queen", agent.ROLE_DAEMON, agent.COG_TACTICAL)
    children = core.ListChildrenRequest()
    print(*refused(Kernel(tcp, 1).ListChildren, children))
    print(*refused(Kernel(tcp).ListChildren, children))
    print(*refused(Kernel(tcp).ListCron, core.ListCronRequest()))
    print(*refused(Kernel(tcp, pid, f"{pid}.00").ListChildren, children))
    print(*refused(Kernel(unix, "abc").ListChildren, children))
    print(*refused(Kernel(unix).ListChildren, children))
    print(*refused(Kernel(unix, pid).ListChildren, children))
    # The control: the operator on the socket of the operator.
    assert [child.pid for child in Kernel(unix, 1).ListChildren(children).children] == [pid]
    assert Kernel(unix).ListCron(core.ListCronRequest()) is not None
    print("the operator is answered")


def secrets(tcp, pid, secret, other_pid, other_secret):
    """A secret proves the process that it was given to, on a port where nothing else does."""

    def told(what, kernel):
        try:
            print(f"{what}: answered" if kernel.GetProcessInfo(core.ProcessInfoRequest()).pid in (int(pid), int(other_pid)) else f"{what}: as another")
        except grpc.RpcError as error:
            print(f"{what}: {error.code().name} {error.details()}")

    told("right", Kernel(tcp, pid, secret))
    told("right, without a pid", Kernel(tcp, None, secret))
    told("wrong", Kernel(tcp, pid, secret[:-1] + ("0" if secret[-1] != "0" else "1")))
    told("missing", Kernel(tcp, pid))
    told("another's", Kernel(tcp, pid, other_secret))
    told("another's, with the other's pid", Kernel(tcp, other_pid, other_secret))


def open_streams(unix):
    """Leaves streams open until the kernel ends them."""
    king = Kernel(unix, 1)
    streams = [king.Subscribe(core.SubscribeRequest(type_filter="never"), timeout=None), king.SubscribeEvents(core.SubscribeEventsRequest(), timeout=None)]
    pid = spawn(king, "queen", agent.ROLE_DAEMON, agent.COG_TACTICAL)
    king.SendMessage(agent.SendMessageRequest(to_pid=1, type="other"))
    wait = king.stub.WaitChild.future(agent.WaitChildRequest(target_pid=pid), metadata=king.metadata)
    print("open", flush=True)
    for stream in streams:
        try:
            for _ in stream:
                pass
            print("ended")
        except grpc.RpcError as error:
            print(error.code().name)
    print(type(wait.exception()).__name__ if wait.exception() else "waited")


if __name__ == "__main__":
    {"every_method": every_method, "identity": identity, "secrets": secrets, "open_streams": open_streams}[sys.argv[1]](*sys.argv[2:])
