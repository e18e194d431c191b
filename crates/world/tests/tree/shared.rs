//! Artifacts, trouble and cron, one case each.

use super::history::Run;
use super::spawned;
use ::world::event::*;
use ::world::*;
use std::collections::BTreeMap;

/// kernel 1 ─ { a 3 (leo) ─ { b 4 (leo), c 5 (leo) }, d 6 (shop) }
fn tree() -> Run {
    let mut run = Run::new();
    for (pid, parent, user) in [(3, 1, "leo"), (4, 3, "leo"), (5, 3, "leo"), (6, 1, "shop")] {
        let program = Some(Box::new(Program::new(ProcessRole::Agent, Tier::Tactical)));
        run.record(ProcSpawned {
            pid: Pid(pid),
            task: None,
            parent: Some(Pid(parent)),
            name: format!("p{pid}"),
            role: "agent".into(),
            zone: None,
            user: user.into(),
            program,
        });
    }
    run
}

fn store(run: &Run, pid: u64, key: &str, visibility: Visibility) -> ArtifactStored {
    let version = run.world.artifact_at(Pid(pid), key, visibility).map_or(1, |before| before.version + 1);
    let artifact = run.world.next_artifact();
    ArtifactStored {
        pid: Pid(pid),
        task: None,
        artifact,
        key: key.into(),
        version,
        visibility,
        content_type: "text/plain".into(),
        blob: artifact.to_string(),
        bytes: 10,
    }
}

#[test]
fn each_visibility_has_its_readers_also_when_its_storer_is_gone() {
    let mut run = tree();
    for visibility in [Visibility::Private, Visibility::User, Visibility::Subtree, Visibility::Global] {
        let event = store(&run, 3, visibility.as_str(), visibility);
        run.record(event);
    }
    let readers = |run: &Run| {
        let of = |artifact: &StoredArtifact| {
            (2..7)
                .filter(|pid| run.world.processes.contains_key(&Pid(*pid)) && readable(&run.world, Pid(*pid), artifact))
                .collect::<Vec<u64>>()
        };
        run.world.artifacts.values().map(|artifact| (artifact.key.clone(), of(artifact))).collect::<BTreeMap<_, _>>()
    };
    let expected =
        |all: [(&str, &[u64]); 4]| all.into_iter().map(|(key, pids)| (key.to_owned(), pids.to_vec())).collect::<BTreeMap<_, _>>();
    assert_eq!(
        readers(&run),
        expected([("private", &[2, 3]), ("user", &[2, 3, 4, 5]), ("subtree", &[2, 3, 4, 5]), ("global", &[2, 3, 4, 5, 6])])
    );
    run.world.ending(Pid(3), false, "done", ProcessExit::default()).into_iter().for_each(|event| run.record(event));
    let left = [("private", &[2, 3][..]), ("user", &[2, 3, 4, 5]), ("subtree", &[2, 3, 4, 5]), ("global", &[2, 3, 4, 5, 6])];
    assert_eq!(readers(&run), expected(left));
    assert_eq!(run.world.artifact_by_key(Pid(4), "subtree").map(|artifact| artifact.owner), Some(Pid(3)));
    assert_eq!(run.world.artifact_by_key(Pid(6), "subtree"), None);
}

#[test]
fn nobody_stores_over_anothers_key() {
    let mut run = tree();
    let first = store(&run, 3, "report", Visibility::Global);
    run.record(first);
    let other: Event = store(&run, 6, "report", Visibility::Global).into();
    assert!(run.world.check(&other).is_err());
    let own = store(&run, 6, "report", Visibility::Private);
    run.record(own);
    assert_eq!(run.world.artifact_by_key(Pid(6), "report").map(|artifact| artifact.owner), Some(Pid(6)), "its own comes first");
    let gone: Event = ArtifactRemoved { pid: Pid(6), task: None, artifact: ArtifactId(1) }.into();
    assert!(run.world.check(&gone).is_err());
    for _ in 0..12 {
        let next = store(&run, 3, "report", Visibility::Global);
        run.record(next);
    }
    let versions: Vec<u32> =
        run.world.artifacts.values().filter(|artifact| artifact.owner == Pid(3)).map(|artifact| artifact.version).collect();
    assert_eq!(versions, (4..14).collect::<Vec<_>>(), "the latest ones are kept");
    let large = ArtifactStored { bytes: limits::ARTIFACT_QUOTA_BYTES, ..store(&run, 3, "big", Visibility::User) };
    assert!(run.world.check(&large.into()).is_err(), "there is a quota");
}

#[test]
fn trouble_goes_up_level_by_level_to_a_person() {
    let mut run = tree();
    let (task, escalation) = (None, EscalationId(1));
    let raise = |to| EscalationRaised {
        pid: Pid(4),
        task,
        escalation,
        to: Pid(to),
        issue: "RAM 95%".into(),
        severity: Severity::Critical,
        context: BTreeMap::new(),
        auto: true,
    };
    assert!(run.world.check(&raise(1).into()).is_err(), "no level is left out");
    run.record(raise(3));
    let stranger: Event = EscalationHandled { pid: Pid(6), task, escalation, response: "mine".into() }.into();
    assert!(run.world.check(&stranger).is_err());
    run.record(EscalationPassed { pid: Pid(3), task, escalation, to: Some(Pid(1)), review: None });
    let early: Event = EscalationPassed { pid: Pid(1), task, escalation, to: None, review: Some(ReviewId(1)) }.into();
    assert!(run.world.check(&early).is_err(), "there is no such question");
    let like = CallPattern::Exact { tool: "escalation.raise".into(), bind: "b".into() };
    run.record(ReviewAsked {
        pid: Pid(4),
        task,
        review: ReviewId(1),
        tool: "escalation.raise".into(),
        input: serde_json::json!({}),
        bind: "b".into(),
        like,
        reasons: vec![],
        rules: vec![],
        paths: vec![],
        size: None,
        zone: None,
        whole: None,
        room: None,
    });
    run.record(early);
    run.record(EscalationHandled { pid: Pid(2), task, escalation, response: "restarted".into() });
    let known = &run.world.escalations[&escalation];
    let answer = known.handled.as_ref().unwrap();
    assert_eq!((known.passed_by.as_slice(), answer.by, answer.response.as_str()), ([Pid(3), Pid(1)].as_slice(), Pid(2), "restarted"));
}

#[test]
fn an_entry_of_cron_knows_its_last_run_and_its_next() {
    let mut run = tree();
    let (pid, task, cron) = (Pid(3), None, CronId(1));
    let spec = CronSpec {
        name: "n".into(),
        expression: "0 8 * * 1-5".into(),
        timezone: "Europe/Berlin".into(),
        action: CronAction::Execute,
        target: pid,
        description: "d".into(),
        params: BTreeMap::new(),
        program: None,
        enabled: true,
        overlap: OverlapRule::Skip,
        missed: MissedRule::Once,
        jitter_ms: 0,
    };
    let spawns = CronSpec { action: CronAction::Spawn, ..spec.clone() };
    let nothing: Event = CronAdded { pid, task, cron, spec: Box::new(spawns), next_ms: None }.into();
    assert!(run.world.check(&nothing).is_err(), "it says what to spawn");
    run.record(CronAdded { pid, task, cron, spec: Box::new(spec.clone()), next_ms: Some(run.now_ms + 10) });
    assert!(!run.world.crons[&cron].may_fire(run.now_ms + 9) && run.world.crons[&cron].may_fire(run.now_ms + 10));
    let due_ms = run.now_ms + 10;
    run.now_ms += 12;
    run.record(CronFired { pid, task, cron, due_ms, next_ms: Some(due_ms + 10), skipped: false });
    assert!(!run.world.crons[&cron].may_fire(due_ms + 10), "its last run goes on");
    run.record(CronEnded { pid, task, cron, exit_code: 3, output: "out".into() });
    let last = run.world.crons[&cron].last.clone().unwrap();
    assert_eq!((last.due_ms, last.exit_code, last.output.as_str()), (due_ms, Some(3), "out"));
    assert!(run.world.crons[&cron].may_fire(due_ms + 10));
    let ended: Event = CronEnded { pid, task, cron, exit_code: 0, output: String::new() }.into();
    assert!(run.world.check(&ended).is_err(), "no run goes on");
    run.record(CronAdded { pid, task, cron, spec: Box::new(CronSpec { enabled: false, ..spec }), next_ms: None });
    assert_eq!(run.world.crons[&cron].last, Some(last), "what ran stays known");
    run.record(CronRemoved { pid, task, cron, by: "operator".into() });
    assert!(run.world.crons.is_empty());
}

#[test]
fn a_stream_of_bytes_leads_from_a_parent_to_its_child() {
    let mut run = Run::new();
    let agent = || Program::new(ProcessRole::Agent, Tier::Tactical);
    for (pid, parent) in [(3, 1), (4, 3), (5, 4), (6, 3)] {
        run.record(spawned(pid, parent, agent()));
    }
    let open = |run: &Run, pid, peer| StreamOpened {
        pid: Pid(pid),
        task: None,
        stream: run.world.next_stream(),
        peer: Pid(peer),
        name: "data".into(),
    };
    for (pid, peer) in [(3, 5), (5, 3), (4, 6), (3, 3), (3, 9)] {
        assert!(run.world.check(&open(&run, pid, peer).into()).is_err(), "{pid} to {peer}");
    }
    for (pid, peer) in [(3, 4), (4, 3)] {
        run.record(open(&run, pid, peer));
    }
    assert_eq!(run.world.streams.keys().map(ToString::to_string).collect::<Vec<_>>(), ["stream-1", "stream-2"]);
    let closed =
        |stream| StreamClosed { pid: Pid(3), task: None, stream: StreamId(stream), sent: Some(5), received: None, why: "x".into() };
    run.record(closed(1));
    assert!(run.world.check(&closed(1).into()).is_err(), "it is closed once");
    // What its parent's end left open can still be closed.
    run.world.ending_branch(Pid(3), "over", EndReason::Normal).into_iter().for_each(|event| run.record(event));
    run.record(closed(2));
    assert!(run.world.streams.is_empty());
    assert!(run.world.check(&open(&run, 3, 4).into()).is_err(), "nobody opens one after its end");
    while run.world.streams.len() < limits::STREAMS_OPEN_MAX {
        if run.world.streams.is_empty() {
            run.record(spawned(7, 1, agent()));
            run.record(spawned(8, 7, agent()));
        }
        run.record(open(&run, 7, 8));
    }
    assert!(run.world.check(&open(&run, 8, 7).into()).is_err(), "there is an end to them");
}
