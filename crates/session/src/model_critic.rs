//! A model looks at a plan before it is carried out, where the session's terms ask for it.
//!
//! **Invariant.** Who was asked for a judgement and gave none lets no plan pass.

use crate::asking::ask_model;
use crate::briefing;
use crate::model_planner::open_model;
use crate::planner::PlannerFault;
use crate::planner_spec::PlannerSpec;
use crate::resume::PlanningPast;
use crate::work::SessionWork;
use brain::SingleQuestion;
use brain::model::Purpose;
use workflow::{MODEL_CRITIC, Plan, PlannerPrompt, RESPONSE_BYTES_MAX, critic_prompt, read_judgement};
use world::{Fault, FaultKind, PlanFinding, Stop};

/// Tokens that a judgement may need.
const JUDGEMENT_TOKENS: u64 = 2_000;
/// How often a model is asked again that gave no judgement.
const TRIES_MAX: usize = 2;

/// What a model has against a plan.
pub(crate) async fn judge(work: &SessionWork, plan: &Plan) -> Result<Vec<PlanFinding>, Stop> {
    let spec = PlannerSpec::parse(&work.terms.planner)?;
    let model = open_model(work, spec.model())?;
    let past = PlanningPast::default();
    let (iteration, round) = work.look(|_, session| (session.iteration, session.plan.as_ref().map_or(0, |plan| plan.number)))?;
    let mut request = briefing::request(work, &past, iteration, round).await?;
    // The planner's own marks are known to the planner.
    let digest = work.host.ledger().journal().vault().digest(format!("critic {} {iteration} {}", work.id, plan.to_json()).as_bytes());
    request.nonce = briefing::nonce(&digest);
    let PlannerPrompt { system, user } = critic_prompt(&request, &plan.to_json());
    let question = SingleQuestion {
        purpose: Purpose::Work,
        system: &system,
        user: &user,
        tools: &[],
        output_tokens: JUDGEMENT_TOKENS,
        answer_bytes_max: RESPONSE_BYTES_MAX,
    };
    let mut why = String::new();
    for _ in 0..TRIES_MAX {
        let answer = match ask_model(work, &*model, &question).await {
            Ok(answer) => answer,
            Err(PlannerFault::Stop(stop)) => return Err(stop),
            Err(fault) => return Err(Fault::new(FaultKind::Brain, "the model critic gave no judgement", fault.reason()).into()),
        };
        match read_judgement(&answer.text) {
            Ok(findings) => return Ok(findings),
            Err(rubbish) => why = rubbish,
        }
    }
    let message = format!("the model critic gave no judgement: {why}");
    Ok(vec![PlanFinding { critic: MODEL_CRITIC.to_owned(), at: String::new(), message, blocks: true }])
}
