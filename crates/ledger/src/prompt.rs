//! What a task was really asked to do, where the journal has it without its secrets.
//!
//! The original lies encrypted in the vault until the task ends. **Invariant.** A brain gets what was asked or nothing, never what is
//! left of it in the record.

use crate::ledger::fault;
use crate::{Ledger, aside};
use std::borrow::Cow;
use world::{Code, Refusal, Task};
use world::{Fault, FaultKind, Stop};

impl Ledger {
    /// Keeps a prompt that the journal will not hold as it is, and gives its name in the vault.
    pub async fn keep_prompt(&self, prompt: &str) -> Result<Option<String>, Fault> {
        match self.redactor.text(prompt) {
            Cow::Borrowed(_) => Ok(None),
            Cow::Owned(_) => self.keep_exact(self.new_original("prompt", prompt), prompt).await.map(Some),
        }
    }

    /// A name in the vault that nothing else has.
    pub fn new_original(&self, what: &str, text: &str) -> String {
        format!("{what}-{}-{}", self.journal().vault().digest(text.as_bytes()), jiff::Timestamp::now().as_nanosecond())
    }

    /// Keeps under this name in the vault the exact words of something that the journal holds without its secrets.
    pub async fn keep_exact(&self, name: String, text: &str) -> Result<String, Fault> {
        let (journal, text) = (self.journal().clone(), text.to_owned());
        let kept = tokio::task::spawn_blocking(move || journal.vault().put_durably(&name, text.as_bytes()).map(|()| name));
        let kept = kept.await.map_err(|error| Fault::new(FaultKind::Bug, "the exact words were not kept", error))?;
        kept.map_err(fault)
    }

    /// The exact words of this name; `None` where they are not kept any more.
    pub fn exact(&self, name: &str) -> Result<Option<Vec<u8>>, Fault> {
        aside(|| self.journal().vault().get(name)).map_err(fault)
    }

    /// The prompt as it was given.
    pub async fn prompt(&self, task: &Task) -> Result<String, Stop> {
        self.original(task, &task.prompt, task.original.as_ref()).await
    }

    /// What a person said after it, oldest first, as it was given.
    pub async fn further_prompts(&self, task: &Task) -> Result<Vec<String>, Stop> {
        let mut prompts = Vec::with_capacity(task.further.len());
        for further in &task.further {
            prompts.push(self.original(task, &further.prompt, further.original.as_ref()).await?);
        }
        Ok(prompts)
    }

    async fn original(&self, task: &Task, recorded: &str, name: Option<&String>) -> Result<String, Stop> {
        let Some(name) = name.cloned() else { return Ok(recorded.to_owned()) };
        let journal = self.journal().clone();
        let original = tokio::task::spawn_blocking(move || journal.vault().get(&name)).await;
        let original = original.map_err(|error| Fault::new(FaultKind::Bug, "the prompt was not read", error))?;
        match original.map_err(fault)? {
            Some(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            None => Err(Refusal::new(Code::WrongState, format!("the prompt of {} held a secret, and is not kept any more", task.id))
                .hint("queue it again")
                .into()),
        }
    }
}
