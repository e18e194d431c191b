//! The way out of a room on a real kernel: real programs, servers of our own on loopback, and what the journal says of it.

mod programs;
mod rules;
mod server;

use kernel::{CallEnd, Reply, Tuning};
use serde_json::{Value, json};
use std::sync::Arc;
use testkit::harness::Test;
use testkit::stage;
use world::{Event, ReviewId};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("what_the_policy_allows_is_reached_and_nothing_else", rules::allowed),
        Test::new("a_new_host_asks_once_for_a_whole_job", rules::asked),
        Test::new("what_is_taken_back_is_closed_at_once", rules::revoked),
        Test::new("a_template_never_leads_beyond_its_hosts", rules::templates),
        Test::new("a_service_is_on_the_rooms_own_loopback", rules::service),
        Test::new("a_room_knows_a_secret_by_its_sentinel", rules::secrets),
        Test::new("curl_and_python_speak_tls_through_it", programs::tls),
        Test::new("pip_downloads_from_its_registries", programs::pip),
        Test::new("npm_installs_from_its_registry", programs::npm),
        Test::new("cargo_fetches_from_its_registry", programs::cargo),
        Test::new("git_clones_from_a_host_that_the_policy_allows", programs::git),
    ]
}

/// A stage with a way out.
pub struct Stage(Arc<stage::Stage>);

impl std::ops::Deref for Stage {
    type Target = stage::Stage;

    fn deref(&self) -> &stage::Stage {
        &self.0
    }
}

pub struct Setup {
    pub policy: String,
    pub config: String,
    pub files: Vec<(String, String)>,
    pub tuning: Tuning,
}

pub fn play<F: Future<Output = Result<(), String>>>(setup: Setup, test: impl FnOnce(Arc<Stage>) -> F) -> Result<(), String> {
    let Setup { policy, config, files, tuning } = setup;
    let runs = "  - { name: runs, match: { syscall: [shell.run, fs.read, http.request] }, action: allow }\n";
    let home = vec![("config.yml".to_owned(), config)];
    stage::play(stage::Setup { policy: format!("{runs}{policy}"), files, home, tuning, workers: None }, |stage| {
        test(Arc::new(Stage(stage)))
    })
}

impl Stage {
    /// Runs a program in a room of this template and gives its standard output.
    pub async fn run(&self, template: &str, command: &[&str]) -> Result<String, String> {
        let outcome = self.call("shell.run", json!({ "command": command, "template": template })).await?;
        match outcome.end {
            CallEnd::Done { ok: true, value } => Ok(value["stdout"].as_str().unwrap_or_default().trim_end().to_owned()),
            other => Err(format!("{command:?}: {other:?}")),
        }
    }

    pub async fn python(&self, template: &str, script: &str) -> Result<String, String> {
        self.run(template, &["/usr/bin/python3", "-c", script]).await
    }

    /// The whole journal as its lines.
    pub fn lines(&self) -> Result<String, String> {
        let records = self.kernel.ledger.read(&journal::Filter::default()).map_err(|fault| fault.to_string())?;
        Ok(records.into_iter().map(|record| record.line).collect::<Vec<_>>().join("\n"))
    }

    /// What the journal says of the network, in short lines.
    pub fn told(&self) -> Result<Vec<String>, String> {
        let place = |input: &Value| {
            format!("{} {}:{}", input["method"].as_str().unwrap_or("-"), input["host"].as_str().unwrap_or("?"), input["port"])
        };
        let told = self.events()?.into_iter().filter_map(|event| match event {
            Event::CallAdmitted(e) if e.tool.starts_with("net.") => Some(format!("admitted {} {}", e.tool, place(&e.input))),
            Event::CallRefused(e) if e.tool.starts_with("net.") => Some(format!("refused {} {}: {}", e.tool, place(&e.input), e.reason)),
            Event::ReviewAsked(e) if e.tool.starts_with("net.") => Some(format!("asked {} {}", e.tool, place(&e.input))),
            Event::NetClosed(e) => Some(format!("closed {} {}:{} {}", e.method.as_deref().unwrap_or("-"), e.host, e.port, e.end)),
            Event::CallFinished(e) if e.output["bytes_up"].is_u64() => Some(format!("finished after {} requests", e.output["requests"])),
            _ => None,
        });
        Ok(told.collect())
    }

    pub async fn allow(&self, review: ReviewId) -> Result<(), String> {
        self.answer(review, Reply::yes()).await
    }
}
