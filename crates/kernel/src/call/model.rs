//! The gate for a request to a model: admitted here, carried out by the gateway, settled by `model/settle.rs`.

use super::facts;
use super::gate::{self, Admission};
use super::{Request, settle};
use crate::Kernel;
use std::time::Instant;
use world::{CallId, Fault, Refusal, Stop};

/// What rules can know of a request to a model.
pub(crate) struct ModelFacts<'a> {
    pub tier: &'a str,
    pub host: &'a str,
    /// Provider and model.
    pub words: Vec<String>,
    /// The room that it comes from.
    pub room: Option<world::UsedRoom>,
}

/// An admitted call that somebody else carries out.
pub(crate) struct ModelPermit(gate::Permit);

impl ModelPermit {
    pub fn call(&self) -> CallId {
        self.0.call
    }

    /// It may be carried out, and its admission is still being written.
    pub fn is_ahead(&self) -> bool {
        self.0.unrecorded.is_some()
    }

    /// There will be such a call: its admission is on disk, or on its way there.
    pub fn stands(&self, kernel: &Kernel) -> bool {
        self.0.unrecorded.as_ref().is_none_or(|unrecorded| kernel.ledger.stands(unrecorded))
    }

    /// Waits until the admission is on disk. After an error there is no such call, and its number may be another's.
    pub async fn recorded(&mut self, kernel: &Kernel) -> Result<(), Fault> {
        match self.0.unrecorded.take() {
            Some(unrecorded) => kernel.ledger.recorded(unrecorded).await,
            None => Ok(()),
        }
    }
}

pub(crate) enum ModelAdmission {
    Admitted(ModelPermit),
    Refused(Refusal),
}

/// Admits a request to a model, with what is reserved for it; the gateway carries it out, and its end is recorded by `model`.
pub(crate) async fn admit_model(
    kernel: &Kernel,
    request: &Request,
    about: ModelFacts<'_>,
    with: &gate::OnAdmit<'_>,
) -> Result<ModelAdmission, Stop> {
    let facts = facts::of_model(kernel, request, about).await?;
    if let Some(no) = super::unsupported_override(kernel, request, &facts) {
        settle::refuse(kernel, request, no.clone(), Instant::now()).await?;
        return Ok(ModelAdmission::Refused(no));
    }
    match gate::admit_with(kernel, request, &facts, with).await? {
        Some(Admission::Admitted { permit, .. }) => Ok(ModelAdmission::Admitted(ModelPermit(permit))),
        Some(Admission::Refused { refusal, .. } | Admission::Pending { refusal, .. }) => Ok(ModelAdmission::Refused(refusal)),
        None => Err(super::stale().into()),
    }
}

/// Records the refusal of a call that no gate saw: a request to a model, or a trial.
pub(crate) async fn record_refusal(kernel: &Kernel, request: &Request, refusal: Refusal) -> Result<(), Fault> {
    settle::refuse(kernel, request, refusal, Instant::now()).await.map(drop)
}
