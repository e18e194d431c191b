//! A request to a model at the gate: admitted here, carried out by the gateway, settled by `settle.rs`.

use gate::{Details, Gate, GateDecision, Request};
use ledger::Ledger;
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
    pub fn stands(&self, ledger: &Ledger) -> bool {
        self.0.unrecorded.as_ref().is_none_or(|unrecorded| ledger.stands(unrecorded))
    }

    /// Waits until the admission is on disk. After an error there is no such call, and its number may be another's.
    pub async fn recorded(&mut self, ledger: &Ledger) -> Result<(), Fault> {
        match self.0.unrecorded.take() {
            Some(unrecorded) => ledger.recorded(unrecorded).await,
            None => Ok(()),
        }
    }
}

pub(crate) enum ModelAdmission {
    Admitted(ModelPermit),
    Refused(Refusal),
}

/// Admits a request to a model, with what is reserved for it; the gateway carries it out, and its end is recorded by `settle.rs`.
pub(crate) async fn admit_model(
    gate: &Gate,
    request: &Request,
    about: ModelFacts<'_>,
    with: &gate::OnAdmit<'_>,
) -> Result<ModelAdmission, Stop> {
    let ModelFacts { tier, host, words, room } = about;
    let details = Details {
        run_mode: request.run_mode,
        // Asked again after a crash it costs, but it changes nothing: it counts as a read.
        read_only: true,
        // For rules its provider and model are a command's words, `[anthropic, claude-opus-4-1]`.
        command: Some(words),
        host: (!host.is_empty()).then(|| host.to_owned()),
        room,
        tier: tier.to_owned(),
        // Of which tier the one who asks is.
        tree: Some(gate::TreeRequest::Own),
        ..Details::of(&request.tool, request.input.clone())
    };
    let facts = gate.describe_without_files(request, details).await?;
    let refusal = gate.ledger.flood_refusal(request.pid).or_else(|| gate.unsupported_override(request, &facts.call));
    if let Some(no) = refusal {
        gate.record_refusal(request, &no).await?;
        return Ok(ModelAdmission::Refused(no));
    }
    match gate.admit_with(request, &facts, with).await? {
        Some(GateDecision::Admitted { permit, .. }) => Ok(ModelAdmission::Admitted(ModelPermit(permit))),
        Some(GateDecision::Refused { refusal, .. } | GateDecision::Pending { refusal, .. }) => Ok(ModelAdmission::Refused(refusal)),
        None => Err(gate::stale().into()),
    }
}
