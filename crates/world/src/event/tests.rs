use super::*;

#[test]
fn an_event_reads_back_from_its_line_and_an_unknown_kind_does_not() {
    let event: Event = BrainSaid { pid: Pid(3), task: Some(TaskId(1)), text: "hi".into() }.into();
    let line = serde_json::to_string(&event).unwrap();
    assert_eq!(line, r#"{"type":"brain.said","payload":{"pid":3,"task":"task-1","text":"hi"}}"#);
    assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    let turned = r#"{"payload":{"pid":3,"task":"task-1","text":"hi"},"seq":7,"type":"brain.said"}"#;
    assert_eq!(serde_json::from_str::<Event>(turned).unwrap(), event);
    assert_eq!(serde_json::from_value::<Event>(serde_json::from_str(turned).unwrap()).unwrap(), event);
    assert!(serde_json::from_str::<Event>(&line.replace("brain.said", "brain.sang")).is_err());
    assert!(serde_json::from_str::<Event>(&line.replace("\"text\"", "\"txet\"")).is_err());
}

#[test]
fn only_the_closed_list_may_be_late() {
    let event: Event = BrainSaid { pid: Pid(3), task: None, text: String::new() }.into();
    assert_eq!(event.weight(), Weight::Progress);
    assert_eq!(Event::KINDS.iter().filter(|kind| **kind == "brain.said").count(), 1);
    let read = CallAdmitted {
        pid: Pid(3),
        task: None,
        call: CallId(1),
        tool: "fs.read".into(),
        input: Value::Null,
        digest: String::new(),
        bind: String::new(),
        hands: Hands::Kernel,
        read_only: true,
        rules: Vec::new(),
        grant: None,
        token: None,
        paths: Vec::new(),
        size: None,
        of: None,
        up: None,
        rooms: Some(Vec::new()),
        run_mode: None,
        step: None,
        workflow: None,
    };
    let may_be_late = |event: CallAdmitted| Event::from(event).may_be_late();
    assert!(may_be_late(read.clone()));
    assert!(!may_be_late(CallAdmitted { tool: "fs.write".into(), ..read.clone() }));
    assert!(!may_be_late(CallAdmitted { tool: "git.status".into(), ..read.clone() }), "it runs in a room");
    assert!(!may_be_late(CallAdmitted { read_only: false, ..read.clone() }));
    assert!(!may_be_late(CallAdmitted { hands: Hands::Caller, ..read.clone() }));
    assert!(!may_be_late(CallAdmitted { grant: Some(GrantId(1)), ..read.clone() }));
    assert!(!may_be_late(CallAdmitted { token: Some(TokenId(1)), ..read.clone() }));
    assert!(!may_be_late(CallAdmitted { rooms: None, ..read.clone() }));
    let keeps_rights = |event: CallAdmitted| Event::from(event).keeps_rights();
    assert!(keeps_rights(read.clone()));
    assert!(!keeps_rights(CallAdmitted { grant: Some(GrantId(1)), ..read.clone() }), "it may have been its last use");
    assert!(!keeps_rights(CallAdmitted { token: Some(TokenId(1)), ..read }));
}
