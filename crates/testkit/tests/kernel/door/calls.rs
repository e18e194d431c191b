//! Order, rest, shares and observation.

use super::{Setup, Stage, done, path, pending, play};
use kernel::{CallEnd, Reply, Tuning};
use serde_json::json;
use std::sync::Arc;
use world::{Event, Observe, Scope, Terms};

const ALL: &str = "  - { name: all, match: { syscall: [fs.read, fs.write, shell.run, flaky] }, action: allow }\n";

fn setup() -> Setup {
    Setup { policy: ALL, tools: &[], tuning: Tuning::default() }
}

/// A program holds the whole project until somebody ends it: a read of the same task waits, another task's does not.
pub fn lanes() -> Result<(), String> {
    play(setup(), async |door| {
        let nap = format!("3600.{}", std::process::id());
        let first = spawn(&door, "shell.run", json!({ "command": ["sh", "-c", format!("sleep {nap}; echo after > a.txt")] }));
        while !admitted(&door, "shell.run")? {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let second = spawn(&door, "fs.read", path("a.txt"));
        // Outside the task nothing meets it, so this one overlaps.
        let alone = kernel::Request::new(world::Pid(3), None, door.zone, "fs.read", path("b.txt"));
        let outcome = door.kernel.call_as(&alone).await.map_err(|fault| fault.to_string())?;
        assert_eq!(done(&outcome)?.1["content"], "two\n", "a call that meets nothing does not wait");
        assert!(!first.is_finished() && !second.is_finished(), "both are still on their way");
        assert!(!admitted(&door, "a.txt")?, "the read was let in before the program ended");
        wake(&nap).await?;
        first.await.map_err(|error| error.to_string())??;
        let read = second.await.map_err(|error| error.to_string())??;
        assert_eq!(done(&read)?.1["content"], "after\n", "the second call sees what the first one did");
        Ok(())
    })
}

/// Many writes at once into folders that are not there yet: each of them finds its folder or makes it.
pub fn folders() -> Result<(), String> {
    play(setup(), async |door| {
        for round in 0..8 {
            let write = |file: usize| json!({ "path": format!("new-{round}/deep/{file}.txt"), "content": "x\n" });
            let writes: Vec<_> = (0..8).map(|file| spawn(&door, "fs.write", write(file))).collect();
            for write in writes {
                let outcome = write.await.map_err(|error| error.to_string())??;
                let (ok, value) = done(&outcome)?;
                assert!(ok, "{value}");
            }
        }
        Ok(())
    })
}

/// Ends the one `sleep` with this argument, as soon as it is there.
async fn wake(nap: &str) -> Result<(), String> {
    let command = format!("sleep\0{nap}\0");
    loop {
        let entries = std::fs::read_dir("/proc").map_err(|error| error.to_string())?.flatten().map(|entry| entry.path());
        if let Some(found) =
            entries.into_iter().find(|path| std::fs::read_to_string(path.join("cmdline")).is_ok_and(|text| text == command))
        {
            let pid = found.file_name().unwrap_or_default();
            let killed = std::process::Command::new("kill").arg(pid).status().map_err(|error| error.to_string())?;
            return if killed.success() { Ok(()) } else { Err("it was not ended".into()) };
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

fn spawn(door: &Arc<Stage>, tool: &'static str, input: serde_json::Value) -> tokio::task::JoinHandle<Result<kernel::CallOutcome, String>> {
    let door = door.clone();
    tokio::spawn(async move { door.call(tool, input).await })
}

/// Was a call of this tool, or on this path, admitted?
fn admitted(door: &Stage, what: &str) -> Result<bool, String> {
    Ok(door
        .events()?
        .iter()
        .any(|event| matches!(event, Event::CallAdmitted(e) if e.tool == what || e.paths.iter().any(|path| path == what))))
}

const FLAKY: &str = "{ name: flaky, version: 1.0.0, description: d, runner: shell, input_schema: {type: object}, output_schema: {}, \
    timeout_ms: 60000, command: [echo, broken] }";

pub fn rests() -> Result<(), String> {
    play(Setup { tools: &[FLAKY], ..setup() }, async |door| {
        for n in 0..5 {
            assert!(!done(&door.call("flaky", json!({ "n": n })).await?)?.0);
        }
        let CallEnd::Refused(no) = door.call("flaky", json!({})).await?.end else { return Err("it does not rest".into()) };
        assert_eq!(no.reason, "`flaky` is not available in state resting: `flaky` failed 5 times in a row and rests for 30 s");
        let hint = no.hint.unwrap_or_default();
        assert!(hint.starts_with("available now: fs.delete, fs.edit") && !hint.contains("flaky"), "{hint}");
        Ok(())
    })
}

/// Outputs beyond a task's share are not kept, and that is on record; the caller still gets them.
pub fn share() -> Result<(), String> {
    let tuning = Tuning { task_blob_bytes_max: 100_000, ..Tuning::default() };
    play(Setup { tuning, ..setup() }, async |door| {
        let long = json!({ "command": ["sh", "-c", "head -c 40000 /dev/zero | tr '\\0' x"] });
        for _ in 0..4 {
            assert!(done(&door.call("shell.run", long.clone()).await?)?.0);
        }
        let events = door.events()?;
        let kept = events.iter().filter(|event| matches!(event, Event::CallFinished(e) if e.blob.is_some())).count();
        let dropped: u64 = events.iter().map(|event| if let Event::RecordsDropped(e) = event { e.count } else { 0 }).sum();
        assert_eq!((kept, dropped), (2, 2), "two of 40 kB fit into 100 kB");
        Ok(())
    })
}

/// Plain reads need no sync of their own and are on record all the same; a write, a refusal and a read by a grant wait for theirs.
pub fn late() -> Result<(), String> {
    const CALLS: u64 = 40;
    play(setup(), async |door| {
        let (ledger, journal) = (&door.kernel.ledger, door.kernel.ledger.journal());
        let counted = async |tool: &'static str, input: serde_json::Value| -> Result<u64, String> {
            let before = journal.syncs();
            for _ in 0..CALLS {
                door.call(tool, input.clone()).await?;
            }
            Ok(journal.syncs() - before)
        };
        assert_eq!(done(&door.call("fs.read", path("a.txt")).await?)?.1["content"], "one\n");
        let settle = async || ledger.settle_late().await.map_err(|fault| fault.to_string());
        settle().await?;
        let reads = counted("fs.read", path("a.txt")).await?;
        assert!(reads < CALLS, "{CALLS} reads, {reads} syncs");
        let events = door.events()?;
        let ended = events.iter().filter(|event| matches!(event, Event::CallFinished(end) if end.ok)).count() as u64;
        assert!(ended > CALLS, "{ended} reads are on record");
        settle().await?;
        assert!(!ledger.has_late());
        // The controls. Each has an admission and an end to wait for, or a refusal.
        let writes = counted("fs.write", json!({ "path": "new.txt", "content": "x" })).await?;
        assert!(writes >= 2 * CALLS, "{CALLS} writes, {writes} syncs");
        let refusals = counted("fs.read", path("/etc/none")).await?;
        assert!(refusals >= 1, "the first refusal is a record of its own");
        let review = pending(&door.call("fs.list", path(".skep")).await?)?;
        door.answer(review, Reply::Wide { scope: Scope::Zone { zone: door.zone }, what: None, terms: Terms::default() }).await?;
        let granted = counted("fs.list", path(".skep")).await?;
        assert!(granted >= 2 * CALLS, "{CALLS} reads by a grant, {granted} syncs");
        Ok(())
    })
}

/// The admission of a read waits for the read's end, unless that does not come at once.
pub fn held() -> Result<(), String> {
    play(setup(), async |door| {
        done(&door.call("fs.read", path("a.txt")).await?)?;
        let ledger = &door.kernel.ledger;
        let read = |event: &Event| if let Event::CallAdmitted(call) = event { Some(call.clone()) } else { None };
        let admitted = door.events()?.iter().filter_map(read).next_back().ok_or("no read is on record")?;
        let written = |call| Ok::<_, String>(door.events()?.iter().filter_map(read).any(|known| known.call == call));
        let admit = || {
            let admit = |world: &world::World, _| {
                let call = world.next_call();
                ((vec![world::event::CallAdmitted { call, ..admitted.clone() }.into()], call), kernel::Urgency::Held)
            };
            let pending = ledger.commit_late(admit).map_err(|fault| fault.to_string())?;
            Ok::<_, String>(pending.ahead().0)
        };
        let quick = admit()?;
        ledger.write_if_waiting(std::pin::pin!(std::future::ready(()))).await;
        assert!(!written(quick)? && ledger.has_late(), "it waits for its end");
        let slow = admit()?;
        ledger.write_if_waiting(std::pin::pin!(tokio::task::yield_now())).await;
        let mut seen = false;
        while !std::mem::replace(&mut seen, written(slow)?) {
            tokio::task::yield_now().await;
        }
        assert!(written(quick)?, "what stands before it is written too");
        let last = admit()?;
        ledger.settle_late().await.map_err(|fault| fault.to_string())?;
        assert!(written(last)? && !ledger.has_late(), "whoever must know that nothing is late has it written");
        Ok(())
    })
}

/// What a process may see is remembered between its calls, and no longer than it holds.
pub fn shown() -> Result<(), String> {
    const ASKS: &str = "  - { name: all, match: { syscall: [fs.read, fs.write] }, action: allow }\n  \
                        - { name: asks, match: { syscall: fs.read, path_glob: b.txt }, action: require_review, reason: look }\n";
    play(Setup { policy: ASKS, ..setup() }, async |door| {
        let write = async || door.call("fs.write", json!({ "path": "b.txt", "content": "x" })).await;
        let refused = |outcome: &kernel::CallOutcome| matches!(outcome.end, CallEnd::Refused(_));
        for _ in 0..2 {
            assert!(refused(&write().await?), "what may not be read is masked");
        }
        let review = pending(&door.call("fs.read", path("b.txt")).await?)?;
        door.answer(review, Reply::Wide { scope: Scope::Zone { zone: door.zone }, what: None, terms: Terms::default() }).await?;
        for _ in 0..2 {
            assert!(done(&write().await?)?.0, "a yes shows it");
        }
        let grant = door.kernel.ledger.look(|world| world.grants.keys().next_back().copied()).ok_or("no grant was given")?;
        door.kernel.ledger.revoke_grant(grant, "human").await.map_err(|stop| stop.to_string())?;
        assert!(refused(&write().await?), "and it is masked again");
        Ok(())
    })
}

pub fn observed() -> Result<(), String> {
    play(setup(), async |door| {
        // Another folder than the one that the task itself waits for: that one would use the grant.
        let review = pending(&door.call("fs.list", path(".skep")).await?)?;
        door.answer(review, Reply::Once { terms: Terms { observe: Some(Observe::Detailed), ..Terms::default() } }).await?;
        assert!(done(&door.call("fs.list", path(".skep")).await?)?.0);
        let events = door.events()?;
        let Some(observed) = events.iter().find_map(|event| if let Event::CallObserved(e) = event { Some(e) } else { None }) else {
            return Err("nothing was observed".into());
        };
        let detail = observed.detail.as_ref().ok_or("no detail")?;
        assert_eq!(detail["input"], path(".skep"));
        assert!(detail["output"]["entries"].to_string().contains("policy.yaml"), "{detail}");
        assert!(observed.bytes_in > 0 && observed.bytes_out > 0);
        Ok(())
    })
}
