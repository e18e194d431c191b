//! One short question to a model, to see that it answers.

use super::send;
use crate::model::{Model, ModelFault, Purpose};
use dialect::{ChatRequest, ServerQuirks, StreamDecoder, Turn};

/// Models that think do so at the expense of their answer.
const OUTPUT_TOKENS: u64 = 512;
/// Forms in which a server may want the request.
const FORMS_MAX: usize = 4;

/// Asks for one word. What it answers, or why it does not; nothing is asked twice but a server that wants the request in another form.
pub async fn try_model(model: &dyn Model) -> Result<String, ModelFault> {
    let info = model.info(Purpose::Work);
    let turns = [Turn::user("Answer with the one word: ready".to_owned())];
    let mut quirks = ServerQuirks::default();
    for _ in 0..FORMS_MAX {
        let output_tokens = OUTPUT_TOKENS.min(info.output_tokens_max);
        let request =
            ChatRequest { model: &info.model, system: "You are being tried out.", tools: &[], turns: &turns, output_tokens, quirks };
        let mut response = match send::send(model, Purpose::Work, info.dialect, &request).await {
            Ok(response) => response,
            Err(send::RequestFailure { cause: send::FailureCause::Quirk(learned), .. }) if learned != quirks => {
                quirks = learned;
                continue;
            }
            Err(failure) => return Err(failure.fault),
        };
        let mut decoder = StreamDecoder::new(info.dialect);
        while let Some(chunk) = response.body.chunk().await? {
            decoder.push(&chunk).map_err(send::decode_fault)?;
        }
        let (_, answer) = decoder.finish().map_err(send::decode_fault)?;
        return Ok(Turn::model(answer.parts).text().trim().to_owned());
    }
    Err(ModelFault {
        what: "the server wants requests in no form that is known".into(),
        retry: crate::model::RetryClass::Final,
        hint: None,
    })
}
