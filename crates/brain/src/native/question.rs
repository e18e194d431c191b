//! One question to a model and its whole answer, without a conversation around it.

use super::send;
use crate::ToolCall;
use crate::model::{Model, ModelFault, Purpose, RetryClass};
use dialect::{ChatRequest, ServerQuirks, StopReason, StreamDecoder, ToolSpec, Turn, vendor_name};
use std::time::Duration;

/// Forms in which a server may want the request.
const FORMS_MAX: usize = 4;

pub struct SingleQuestion<'a> {
    pub purpose: Purpose,
    pub system: &'a str,
    pub user: &'a str,
    /// What the answer may call instead of saying something.
    pub tools: &'a [ToolSpec],
    /// Tokens that the answer needs at least; it may have more where the model's context is large.
    pub output_tokens: u64,
    /// Where reading stops: an answer whose text and calls are longer comes back cut, one byte or more behind this, and as text.
    pub answer_bytes_max: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SingleAnswer {
    pub text: String,
    pub calls: Vec<ToolCall>,
}

/// Why there is no answer, and how long the server wants to be left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionFailure {
    pub fault: ModelFault,
    pub retry_after: Duration,
}

impl From<ModelFault> for QuestionFailure {
    fn from(fault: ModelFault) -> QuestionFailure {
        QuestionFailure { fault, retry_after: Duration::ZERO }
    }
}

/// Asks once. Nothing is asked twice but a server that wants the request in another form.
pub async fn ask_once(model: &dyn Model, question: &SingleQuestion<'_>) -> Result<SingleAnswer, QuestionFailure> {
    let info = model.info(question.purpose);
    let turns = [Turn::user(question.user)];
    let output_tokens = send::room_for_answer(&info, question.output_tokens);
    let mut quirks = ServerQuirks::default();
    for _ in 0..FORMS_MAX {
        let request =
            ChatRequest { model: &info.model, system: question.system, tools: question.tools, turns: &turns, output_tokens, quirks };
        let mut response = match send::send(model, question.purpose, info.dialect, &request).await {
            Ok(response) => response,
            Err(send::RequestFailure { cause: send::FailureCause::Quirk(learned), .. }) if learned != quirks => {
                quirks = learned;
                continue;
            }
            Err(failure) => return Err(QuestionFailure { fault: failure.fault, retry_after: failure.retry_after }),
        };
        let mut decoder = StreamDecoder::new(info.dialect);
        let (mut text, mut called) = (String::new(), String::new());
        while let Some(chunk) = response.body.chunk().await? {
            let piece = decoder.push_piece(&chunk).map_err(send::decode_fault)?;
            text.push_str(&piece.text);
            called.push_str(&piece.called);
            // Dropping the response ends the request.
            if text.len() + called.len() > question.answer_bytes_max {
                return Ok(SingleAnswer { text: text + &called, calls: Vec::new() });
            }
        }
        let (_, answer) = decoder.finish().map_err(send::decode_fault)?;
        if let StopReason::Withheld(why) = answer.stop {
            let what = format!("the model would not answer: {why}");
            return Err(ModelFault { what, retry: RetryClass::Final, hint: None }.into());
        }
        let turn = Turn::model(answer.parts);
        let name = |called: &str| question.tools.iter().find(|tool| vendor_name(&tool.name) == called).map(|tool| tool.name.clone());
        let calls = turn.calls().filter_map(|(_, tool, input)| Some(ToolCall { tool: name(tool)?, input: input.clone() }));
        return Ok(SingleAnswer { calls: calls.collect(), text: turn.text() });
    }
    let what = "the server wants requests in no form that is known".to_owned();
    Err(ModelFault { what, retry: RetryClass::Final, hint: None }.into())
}
