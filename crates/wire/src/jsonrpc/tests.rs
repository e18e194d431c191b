use super::*;
use proptest::prelude::*;

fn malformed(text: &str) -> (ErrorCode, RpcId) {
    match Message::parse(text) {
        Err(malformed) => (malformed.code, malformed.id),
        Ok(message) => panic!("{text} is {message:?}"),
    }
}

#[test]
fn each_shape_is_read_for_what_it_is() {
    let Ok(Message::Request(request)) = Message::parse(r#"{"jsonrpc":"2.0","id":7,"method":"proc.list","params":{}}"#) else { panic!() };
    assert_eq!((request.id, request.method.as_str()), (RpcId::Number(7), "proc.list"));
    let Ok(Message::Notification(note)) = Message::parse(r#"{"jsonrpc":"2.0","method":"journal.record"}"#) else { panic!() };
    assert!(note.params.is_none());
    let Ok(Message::Response(response)) = Message::parse(r#"{"jsonrpc":"2.0","id":"a","result":null}"#) else { panic!() };
    assert_eq!(response.outcome.unwrap().get(), "null");
}

#[test]
fn what_is_no_message_says_why_and_keeps_its_id() {
    assert_eq!(malformed("null"), (ErrorCode::BadRequest, RpcId::Null));
    assert_eq!(malformed("[]"), (ErrorCode::BadRequest, RpcId::Null));
    assert_eq!(malformed(r#"["2.0",1,"proc.list",null,null,null]"#), (ErrorCode::BadRequest, RpcId::Null));
    assert_eq!(malformed("7"), (ErrorCode::BadRequest, RpcId::Null));
    assert_eq!(malformed("{"), (ErrorCode::Unreadable, RpcId::Null));
    assert_eq!(malformed("nul"), (ErrorCode::Unreadable, RpcId::Null));
    assert_eq!(malformed(""), (ErrorCode::Unreadable, RpcId::Null));
    assert_eq!(malformed("{}"), (ErrorCode::BadRequest, RpcId::Null));
    assert_eq!(malformed(r#"{"id":3,"method":"x"}"#), (ErrorCode::BadRequest, RpcId::Number(3)));
    assert_eq!(malformed(r#"{"jsonrpc":"2.0","id":3,"method":"x","params":4}"#), (ErrorCode::BadRequest, RpcId::Number(3)));
    assert_eq!(malformed(r#"{"jsonrpc":"2.0","id":3,"method":"x","result":4}"#), (ErrorCode::BadRequest, RpcId::Number(3)));
    assert_eq!(malformed(r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#), (ErrorCode::BadRequest, RpcId::Null));
    assert_eq!(malformed(r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#), (ErrorCode::BadRequest, RpcId::Null));
    assert_eq!(malformed(&"{\"a\":".repeat(5_000)), (ErrorCode::Unreadable, RpcId::Null));
}

#[test]
fn a_remedy_travels_as_data_and_one_that_is_not_known_breaks_nothing() {
    let refusal = Refusal::new(world::Code::Denied, "b-1 refuses it").remedy(world::Remedy::RevokeBan { ban: world::BanId(1) });
    let text = RpcResponse { id: RpcId::Number(1), outcome: Err(refusal.into()) }.text();
    assert_eq!(
        text,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"b-1 refuses it","data":{"code":"denied","remedy":{"do":"revoke_ban","ban":"b-1"}}}}"#
    );
    for (text, remedy) in [
        (text.clone(), world::Remedy::RevokeBan { ban: world::BanId(1) }),
        (text.replace("revoke_ban", "of_tomorrow"), world::Remedy::Unknown),
    ] {
        let Ok(Message::Response(RpcResponse { outcome: Err(error), .. })) = Message::parse(&text) else { panic!("{text}") };
        assert_eq!(error.data.remedy.as_deref(), Some(&remedy));
    }
}

#[test]
fn a_refusal_travels_with_reason_and_hint() {
    let refusal = Refusal::new(world::Code::Denied, "no rule allows it").hint("add one");
    let error = RpcError::refused("the write is refused", refusal);
    let response = RpcResponse { id: RpcId::Number(1), outcome: Err(error.clone()) };
    assert_eq!(
        response.text(),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"the write is refused","data":{"code":"denied","reason":"no rule allows it","hint":"add one"}}}"#
    );
    let Ok(Message::Response(back)) = Message::parse(&response.text()) else { panic!() };
    assert_eq!(back.outcome.unwrap_err(), error);
}

#[test]
fn only_a_living_stream_is_answered() {
    assert!(FrameError::Cut.answer().is_none());
    assert!(FrameError::TooLong { bytes: 1 }.answer().unwrap().text().contains("-32025"));
    assert!(FrameError::Empty.answer().unwrap().text().contains("\"id\":null"));
}

proptest! {
    #[test]
    fn random_text_never_panics(text in ".{0,200}") {
        let _ = Message::parse(&text);
    }

    #[test]
    fn random_mixtures_of_our_keys_never_panic(keys in prop::collection::vec(
        (prop::sample::select(vec!["jsonrpc", "id", "method", "params", "result", "error", "x"]),
         prop::sample::select(vec!["\"2.0\"", "null", "1", "{}", "[]", "\"m\"", "-1", "1e400", "[{}]", "{\"code\":1}"])), 0..7)) {
        let body: Vec<_> = keys.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        if let Err(malformed) = Message::parse(&format!("{{{}}}", body.join(","))) {
            prop_assert!(Message::parse(&malformed.answer().text()).is_ok());
        }
    }

    #[test]
    fn a_request_reads_back(id in any::<u64>(), method in "[a-z.]{1,20}") {
        let sent = RpcRequest { id: RpcId::Number(id), method: method.clone(), params: None };
        match Message::parse(&sent.text()) {
            Ok(Message::Request(request)) => prop_assert_eq!((request.id, request.method), (RpcId::Number(id), method)),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
