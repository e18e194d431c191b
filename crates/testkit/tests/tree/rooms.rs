//! What a program of the tree can reach: its own files and its own doors.

use crate::ground::{Ground, agent, play};
use testkit::harness::Test;
use world::ProcessRole;

pub fn tests() -> Vec<Test> {
    vec![Test::new("an_agent_reads_neither_anothers_files_nor_the_operators", || play(apart))]
}

async fn apart(ground: Ground) -> Result<(), String> {
    let home = tempfile::Builder::new().prefix("operator-").tempdir_in("/var/tmp").map_err(|error| error.to_string())?;
    let secret = home.path().join("secret.txt");
    std::fs::write(&secret, "the operator's own").map_err(|error| error.to_string())?;
    let secret = secret.display().to_string();

    let one = ground.spawn(agent("one", ProcessRole::Agent, "tried:Files")).await?;
    let two = ground.spawn(agent("two", ProcessRole::Agent, "tried:Files")).await?;
    let (code, path) = ground.execute(one, "write", &[("path", "note.txt"), ("text", "mine")]).await?;
    assert_eq!(code, 0, "{path}");
    // Its own file it reads, under the same name.
    assert_eq!(ground.execute(one, "read", &[("path", &path)]).await?, (0, "mine".to_owned()));
    assert_eq!(ground.execute(two, "read", &[("path", &path)]).await?, (1, "FileNotFoundError".to_owned()));
    assert_eq!(ground.execute(one, "read", &[("path", &secret)]).await?, (1, "FileNotFoundError".to_owned()));
    let key = ground.bed.home().join("run/kernel.lock").display().to_string();
    assert_eq!(ground.execute(one, "read", &[("path", &key)]).await?, (1, "FileNotFoundError".to_owned()));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?.to_string();
    assert_eq!(ground.execute(one, "connect", &[("address", &address)]).await?, (1, "ConnectionRefusedError".to_owned()));

    // The control: outside a room, at the operator's word, the same program reaches all of it.
    let order = tree::SpawnOrder { confined: false, ..agent("free", ProcessRole::Agent, "tried:Files") };
    let free = ground.spawn(order).await?;
    assert_eq!(ground.execute(free, "read", &[("path", &secret)]).await?, (0, "the operator's own".to_owned()));
    assert_eq!(ground.execute(free, "connect", &[("address", &address)]).await?, (0, "connected".to_owned()));
    let confined = |pid| ground.kernel.ledger.look(|world| world.processes[&pid].run.as_ref().map(|run| run.confined));
    assert_eq!((confined(one), confined(free)), (Some(true), Some(false)));

    let refused = ground.tree().spawn(one, tree::SpawnOrder { confined: false, ..agent("kid", ProcessRole::Worker, "tried:Files") }).await;
    let refused = refused.err().map(|stop| tree::contract::error_text(&stop));
    assert_eq!(refused.as_deref(), Some("spawn denied: only the operator lets a program run outside a sandbox (leave it confined)"));
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())
}
