//! A child's rights are a subset of its parent's, and a grant to a parent is not lost on its children.

use kernel::{End, Kernel, Reply, Request, Stop};
use sandbox::Launcher;
use std::process::ExitCode;
use std::sync::Arc;
use testkit::bed::Bed;
use testkit::harness::{self, Test};
use world::event::ProcSpawned;
use world::{Pid, Scope, Terms, ZoneId};

const POLICY: &str = "\
capabilities:
  - { name: reads, match: { syscall: fs.read }, action: allow }
  - { name: not-for-foremen, match: { syscall: fs.read, caller: foreman.1, path_glob: secret.txt }, action: deny, reason: not yours }
  - { name: asks, match: { syscall: fs.list }, action: require_review, reason: ask }
";

fn main() -> ExitCode {
    harness::main(&[
        Test::new("what_is_denied_to_a_parent_is_denied_to_its_child", || play(denied)),
        Test::new("a_grant_to_a_parent_holds_for_its_child_until_it_is_revoked", || play(granted)),
    ])
}

/// A kernel with a foreman (3) and a worker (4) below it.
fn play<F: Future<Output = Result<(), Stop>>>(test: fn(Arc<Kernel>, ZoneId) -> F) -> Result<(), String> {
    let files = [("a.txt", "a\n"), ("secret.txt", "s\n"), (".skep/policy.yaml", POLICY)];
    let bed = Bed::new(&files.map(|(path, text)| (path.to_owned(), text.to_owned())))?;
    let launcher = Launcher::start().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let kernel = bed.boot(launcher).await.map_err(|fault| fault.to_string())?;
        let played = async {
            let proposal = kernel.init(&bed.project()).await?;
            let zone = kernel.trust(&bed.project(), &proposal.hash).await?.zone;
            let worker = ProcSpawned {
                pid: Pid(4),
                task: None,
                parent: Some(Pid(3)),
                name: "worker.1".into(),
                role: "worker".into(),
                zone: Some(zone),
                user: "u".into(),
            };
            kernel.ledger.record(worker).await?;
            test(kernel.clone(), zone).await
        };
        played.await.map_err(|stop: Stop| stop.to_string())
    })
}

async fn ask(kernel: &Kernel, pid: u64, zone: ZoneId, tool: &str, path: &str) -> Result<End, Stop> {
    let request = Request::new(Pid(pid), None, zone, tool, serde_json::json!({"path": path}));
    Ok(kernel.make(&request).await?.end)
}

async fn denied(kernel: Arc<Kernel>, zone: ZoneId) -> Result<(), Stop> {
    let refused = ask(&kernel, 4, zone, "fs.read", "secret.txt").await?;
    assert!(matches!(&refused, End::Refused(no) if no.reason.contains("its parent foreman.1 may not")), "{refused:?}");
    let allowed = ask(&kernel, 4, zone, "fs.read", "a.txt").await?;
    assert!(matches!(allowed, End::Done { ok: true, .. }), "the control: {allowed:?}");
    let operator = ask(&kernel, 2, zone, "fs.read", "secret.txt").await?;
    assert!(matches!(operator, End::Done { ok: true, .. }), "the rule is about foremen alone: {operator:?}");
    Ok(())
}

async fn granted(kernel: Arc<Kernel>, zone: ZoneId) -> Result<(), Stop> {
    let End::Pending(refusal) = ask(&kernel, 3, zone, "fs.list", ".").await? else { panic!("no question") };
    let review = refusal.review.unwrap_or_else(|| panic!("no review"));
    let reply = Reply::Wide { scope: Scope::Process { pid: Pid(3) }, what: None, terms: Terms::default() };
    kernel.answer(review, reply, "human", None).await?;
    assert!(matches!(ask(&kernel, 4, zone, "fs.list", ".").await?, End::Done { .. }), "a child of the grant's process");
    assert!(matches!(ask(&kernel, 2, zone, "fs.list", ".").await?, End::Pending(_)), "not a child of it");
    let grant = kernel.ledger.look(|world| world.grants.keys().last().copied()).unwrap_or_else(|| panic!("no grant"));
    kernel.revoke_grant(grant, "human").await?;
    assert!(matches!(ask(&kernel, 4, zone, "fs.list", ".").await?, End::Pending(_)), "revoked for the child too");
    Ok(())
}
