//! What one half of a format writes, the other half reads: requests of the built-in brain and answers of the scripted model.

use crate::*;
use serde_json::{Value, json};

fn turns() -> Vec<Turn> {
    let call = |id: &str, tool: &str| TurnPart::Call { id: id.into(), tool: tool.into(), input: json!({"path": "a"}) };
    let result = |id: &str, ok: bool| TurnPart::Result { id: id.into(), tool: "fs.read".into(), ok, text: format!("result of {id}") };
    vec![
        Turn::user("fix it; the working directory is /w/p."),
        Turn::model(vec![TurnPart::Text("I look.".into()), call("c1", "fs.read"), call("c2", "fs.read")]),
        Turn { speaker: Speaker::User, parts: vec![result("c1", true), result("c2", false)] },
        Turn::model(vec![TurnPart::Text("Once more.".into())]),
        Turn::user("go on"),
    ]
}

#[test]
fn a_rendered_request_parses_to_the_same_conversation() {
    let tools = [ToolSpec { name: "fs.read".into(), description: "Reads.".into(), input_schema: json!({"type": "object"}) }];
    let turns = turns();
    for dialect in Dialect::ALL {
        let quirks = ServerQuirks::default();
        let request = ChatRequest { model: "m-1", system: "be good", tools: &tools, turns: &turns, output_tokens: 900, quirks };
        let (path, body) = dialect.render_request(&request);
        assert_eq!(Dialect::detect("POST", &path), Some((dialect, Endpoint::Generate)), "{path}");
        let parsed = dialect.parse_request(&path, &body).unwrap();
        assert_eq!((parsed.model.as_str(), parsed.stream, parsed.output_max), ("m-1", true, Some(900)), "{dialect:?}");
        assert!(parsed.provider_tools.is_empty() && parsed.images == 0, "{dialect:?}");
        let body: Value = serde_json::from_slice(&body).unwrap();
        let client = dialect.read_conversation(&body);
        let results = match &client.turns[2] {
            ClientTurn::Results(results) => results.clone(),
            other => panic!("{dialect:?}: {other:?}"),
        };
        assert_eq!(results.iter().map(|result| result.ok).collect::<Vec<_>>(), [true, false], "{dialect:?}");
        assert!(results[0].text.ends_with("result of c1") && results[1].text.contains("result of c2"), "{dialect:?}: {results:?}");
        let rest = [&client.turns[..2], &client.turns[3..]].concat();
        let first = ClientTurn::User("fix it; the working directory is /w/p.".into());
        assert_eq!(rest, [first, ClientTurn::Model, ClientTurn::Model, ClientTurn::User("go on".into())], "{dialect:?}");
        assert_eq!((client.folder.as_deref(), client.tools.len(), client.tools[0].name.as_str()), (Some("/w/p"), 1, "fs_read"));
    }
}

#[test]
fn a_rendered_stream_decodes_to_the_same_answer() {
    let call = |tool: &str| {
        AnswerPart::Call(AnswerCall { tool: tool.into(), namespace: None, input: CallInput::Json(json!({"path": "ä/b", "n": [1, 2]})) })
    };
    let text = "One sentence that is longer than a piece, and schön.";
    for (stop, parts) in [
        (StopReason::EndTurn, vec![AnswerPart::Thought("hm".into()), AnswerPart::Text(text.into()), call("fs_read"), call("fs_list")]),
        (StopReason::Length, vec![AnswerPart::Text(text.into())]),
        (StopReason::Withheld(String::new()), vec![AnswerPart::Text(text.into())]),
    ] {
        let usage = TokenUsage { input: 40, output: 9, cache_read: 2, source: UsageSource::Reported, ..TokenUsage::default() };
        let answer = ModelAnswer { parts, usage, stop, is_cut: false };
        for dialect in Dialect::ALL {
            let turns = [Turn::user("hi")];
            let quirks = ServerQuirks::default();
            let request = ChatRequest { model: "m", system: "s", tools: &[], turns: &turns, output_tokens: 9, quirks };
            let (path, body) = dialect.render_request(&request);
            let parsed = dialect.parse_request(&path, &body).unwrap();
            let client = dialect.read_conversation(&serde_json::from_slice(&body).unwrap());
            let rendered = answer.render(&path, &parsed, &client, &body);
            let mut decoder = StreamDecoder::new(dialect);
            let (mut said, mut called) = (String::new(), String::new());
            for chunk in &rendered.chunks {
                let piece = decoder.push_piece(&chunk.bytes).unwrap();
                said.push_str(&piece.text);
                called.push_str(&piece.called);
            }
            let (rest, decoded) = decoder.finish().unwrap();
            said.push_str(&rest);
            assert_eq!(said, text, "{dialect:?}");
            let arguments = |part: &AnswerPart| if let AnswerPart::Call(call) = part { call.input.text() } else { String::new() };
            assert_eq!(called, answer.parts.iter().map(arguments).collect::<String>(), "each argument is counted once: {dialect:?}");
            let turn = Turn::model(decoded.parts);
            let calls: Vec<(&str, String)> = turn.calls().map(|(_, tool, input)| (tool, input.to_string())).collect();
            let wanted = answer.parts.iter().filter_map(|part| match part {
                AnswerPart::Call(call) => Some((call.tool.as_str(), call.input.text())),
                _ => None,
            });
            assert_eq!((turn.text().as_str(), calls), (text, wanted.collect::<Vec<_>>()), "{dialect:?}");
            assert_eq!(decoded.input_tokens, Some(42), "{dialect:?}");
            assert_eq!(std::mem::discriminant(&decoded.stop), std::mem::discriminant(&answer.stop), "{dialect:?}");
            // Half of it is an error, never half an answer.
            let body = rendered.body();
            let mut decoder = StreamDecoder::new(dialect);
            let cut = decoder.push(&body[..body.len() / 2]).and_then(|_| decoder.finish());
            assert!(matches!(cut, Err(DecodeError::Truncated | DecodeError::Malformed(_))), "{dialect:?}: {cut:?}");
        }
    }
}
