//! The child's life: killed, restarted, flooded, given up on, stopped.

use std::fs;
use std::time::{Duration, Instant};

use plugin::EngineState;
use policy::Action;
use rustix::process::{Pid, Signal, kill_process};

use super::host::{Host, Test, call};

pub const TESTS: &[Test] = &[
    ("a_child_killed_while_it_judges_is_a_deny", a_child_killed_while_it_judges_is_a_deny),
    ("a_child_killed_while_it_waits_is_replaced", a_child_killed_while_it_waits_is_replaced),
    ("a_hundred_calls_at_once", a_hundred_calls_at_once),
    ("a_flood_is_denied", a_flood_is_denied),
    ("stop_overtakes_what_waits", stop_overtakes_what_waits),
    ("after_five_restarts_it_stays_down", after_five_restarts_it_stays_down),
    ("a_lost_holder_is_a_deny", a_lost_holder_is_a_deny),
    ("nothing_is_left_after_stop", nothing_is_left_after_stop),
    ("dropping_the_last_handle_ends_the_child", dropping_the_last_handle_ends_the_child),
];

/// Endless, and not to be cut by the engine before it is killed.
const STUCK: &str = "'a'.repeat(3e7).indexOf('a'.repeat(1e6) + 'b'); return pass();";

fn a_child_killed_while_it_judges_is_a_deny(host: &Host) {
    while !killed_while_it_judges(host) {}
}

/// False if the machine was so slow that the kernel had lost patience before.
fn killed_while_it_judges(host: &Host) -> bool {
    let rules = host.start_one(STUCK);
    host.control(&rules);
    let first = rules.status().pid.unwrap();
    let asked = rules.clone();
    let said = host.block_on(async {
        let before = processor_ticks(first);
        let said = tokio::spawn(async move { asked.opinions(&call("fs.write")).await });
        // It judges: nothing else that it does takes so long.
        while processor_ticks(first) < before + 5 && !said.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Nobody is there any more where the kernel was faster.
        let _ = kill_process(Pid::from_raw(first).unwrap(), Signal::KILL);
        said.await.unwrap()
    });
    assert_eq!((said[0].from.as_str(), said[0].says), ("*", Action::Deny));
    if said[0].reason.contains("and was killed") {
        host.block_on(rules.stop());
        return false;
    }
    assert!(said[0].reason.contains("it ended"), "{said:?}");
    // Until the next is up, calls are denied and not kept waiting. A slow machine may have it up by now.
    let (says, reason) = host.one(&rules, "control");
    assert!(says == Action::Deny && reason.contains("being restarted") || says == Action::Allow, "{reason}");
    let status = host.up(&rules);
    assert!(status.restarts == 1 && status.pid != Some(first), "{status:?}");
    host.control(&rules);
    true
}

/// What a process and those below it have used of the processor, in hundredths of a second.
fn processor_ticks(pid: i32) -> u64 {
    let used = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map_or("", |(_, after)| after);
        fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>()
    };
    used(pid) + below(pid).into_iter().map(used).sum::<u64>()
}

fn a_child_killed_while_it_waits_is_replaced(host: &Host) {
    let rules = host.start_one("return pass();");
    let first = rules.status().pid.unwrap();
    kill(first);
    let status = host.until(&rules, |status| status.state == EngineState::Up && status.pid != Some(first) && status.pid.is_some());
    assert_eq!(status.restarts, 1);
    host.control(&rules);
}

/// Two hundred endless calls would take twenty seconds; an end does not wait for them.
fn stop_overtakes_what_waits(host: &Host) {
    let rules = host.start_one("for (;;) {}");
    let said = host.block_on(async {
        let calls: Vec<_> = (0..200)
            .map(|_| {
                let rules = rules.clone();
                tokio::spawn(async move { rules.opinions(&call("fs.write")).await.remove(0) })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(50)).await;
        rules.stop().await;
        let mut said = Vec::new();
        for call in calls {
            said.push(call.await.unwrap());
        }
        said
    });
    assert!(said.iter().all(|said| said.says == Action::Deny));
    assert!(said.iter().filter(|said| said.reason.contains("it was stopped")).count() > 150, "{said:?}");
}

fn a_hundred_calls_at_once(host: &Host) {
    let rules = host.start("export default rule('echo', (call) => allow(call.caller));");
    let said = host.block_on(async {
        let calls: Vec<_> = (0..100)
            .map(|number| {
                let rules = rules.clone();
                tokio::spawn(async move {
                    let mut call = call("fs.write");
                    call["caller"] = format!("caller {number}").into();
                    rules.opinions(&call).await
                })
            })
            .collect();
        let mut said = Vec::new();
        for call in calls {
            said.push(call.await.unwrap().remove(0));
        }
        said
    });
    for (number, said) in said.iter().enumerate() {
        assert_eq!((said.says, said.reason.clone()), (Action::Allow, format!("caller {number}")));
    }
}

fn a_flood_is_denied(host: &Host) {
    let rules = host.start_one("return allow('well');");
    let says = host.block_on(async {
        let calls: Vec<_> = (0..1_000)
            .map(|_| {
                let rules = rules.clone();
                tokio::spawn(async move { rules.opinions(&call("control")).await.remove(0) })
            })
            .collect();
        let mut says = Vec::new();
        for call in calls {
            says.push(call.await.unwrap());
        }
        says
    });
    let (good, bad): (Vec<_>, Vec<_>) = says.into_iter().partition(|said| said.says == Action::Allow);
    assert!(good.len() >= 256, "{}", good.len());
    assert!(bad.iter().all(|said| said.says == Action::Deny && said.reason.contains("too many calls wait")), "{bad:?}");
    host.control(&rules);
}

fn after_five_restarts_it_stays_down(host: &Host) {
    let rules = host.start_one("return pass();");
    for round in 1..=5 {
        kill(rules.status().pid.unwrap());
        let status = host.until(&rules, |status| status.restarts == round && status.state == EngineState::Up && status.pid.is_some());
        assert_eq!(status.restarts, round);
        host.control(&rules);
    }
    let last = rules.status().pid.unwrap();
    kill(last);
    let status = host.until(&rules, |status| matches!(status.state, EngineState::Down { .. }));
    assert_eq!((status.restarts, status.pid), (5, None));
    for _ in 0..3 {
        let (says, reason) = host.one(&rules, "control");
        assert!(says == Action::Deny && reason.contains("stays down"), "{reason}");
    }
    host.block_on(rules.stop());
}

fn a_lost_holder_is_a_deny(host: &Host) {
    let rules = host.start_one("return pass();");
    host.control(&rules);
    let holder: serde_json::Value = serde_json::from_slice(&fs::read(host.works()[0].join("holder")).unwrap()).unwrap();
    kill(i32::try_from(holder["pid"].as_i64().unwrap()).unwrap());
    host.until(&rules, |status| matches!(status.state, EngineState::Down { .. }));
    assert_eq!(host.one(&rules, "control").0, Action::Deny);
    host.block_on(rules.stop());
    // A new set of rules has a room of its own.
    let rules = host.start_one("return pass();");
    host.control(&rules);
}

fn nothing_is_left_after_stop(host: &Host) {
    let rules = host.start_one("return pass();");
    host.control(&rules);
    let tree = below(host.launcher.pid());
    assert!(tree.len() >= 3, "a holder, a pid 1 and a child: {tree:?}");
    let other = rules.clone();
    host.block_on(rules.stop());
    assert_eq!(below(host.launcher.pid()), Vec::<i32>::new());
    assert!(tree.iter().all(|pid| !fs::exists(format!("/proc/{pid}")).unwrap()), "{tree:?}");
    assert_eq!(host.works(), Vec::<std::path::PathBuf>::new());
    // A handle that is left denies.
    assert_eq!(other.status().state, EngineState::Stopped);
    let (says, reason) = host.one(&other, "control");
    assert!(says == Action::Deny && reason.contains("it was stopped"), "{reason}");
    host.block_on(other.stop());
}

fn dropping_the_last_handle_ends_the_child(host: &Host) {
    let rules = host.start_one("return pass();");
    let other = rules.clone();
    drop(rules);
    host.control(&other);
    drop(other);
    let began = Instant::now();
    while !below(host.launcher.pid()).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", below(host.launcher.pid()));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Every process that descends from this one.
fn below(pid: i32) -> Vec<i32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().map(|child| child.parse().unwrap());
    children.flat_map(|child: i32| std::iter::once(child).chain(below(child))).collect()
}
