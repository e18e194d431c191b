use super::*;
use std::fmt::Write;
use std::path::Path;
use world::{Pid, TokenId};

const OPERATOR: Principal = Principal::Operator { os_pid: 100, started_ticks: 7 };
const PROCESS: Principal = Principal::Process { pid: Pid(4) };
const TOKEN: Principal = Principal::Token { token: TokenId(3) };

/// What a process of the tree may ask for. It answers no review and changes no policy, grant, budget or merge.
const FOR_PROCESSES: [&str; 23] = [
    "proc.spawn",
    "proc.kill",
    "proc.wait",
    "proc.execute",
    "proc.info",
    "proc.children",
    "proc.siblings",
    "message.send",
    "message.subscribe",
    "message.list",
    "artifact.store",
    "artifact.read",
    "artifact.list",
    "escalation.raise",
    "resource.usage",
    "resource.request",
    "log.write",
    "metric.report",
    "event.follow",
    "stream.open",
    "cron.add",
    "cron.remove",
    "cron.list",
];

#[test]
fn ids_find_their_rows_and_names_are_noun_and_verb() {
    for (place, row) in ROWS.iter().enumerate() {
        assert_eq!((row.id as usize, row.id.name(), MethodId::from_name(row.name)), (place, row.name, Some(row.id)));
        assert_eq!(row.id.row().name, row.name);
        assert!(row.name.split('.').count() == 2 && row.name.bytes().all(|byte| byte == b'.' || byte.is_ascii_lowercase()), "{}", row.name);
    }
    assert_eq!(MethodId::from_name("kernel.restart"), None);
}

/// Every method, for every kind of principal: let through, or refused in exactly these words.
#[test]
fn each_row_lets_in_its_callers_and_tells_the_others_who_may() {
    for row in ROWS {
        assert_eq!(allows(&OPERATOR, row.id), Ok(()), "{}", row.name);
        let is_for_processes = FOR_PROCESSES.contains(&row.name);
        let others = if is_for_processes { "the operator or a process of the tree" } else { "the operator" };
        for (principal, name) in [(PROCESS, "process 4"), (TOKEN, "token t-3")] {
            if is_for_processes && principal == PROCESS {
                assert_eq!(allows(&principal, row.id), Ok(()), "{}", row.name);
                continue;
            }
            let refusal = allows(&principal, row.id).unwrap_err();
            assert_eq!(refusal, Refusal::new(world::Code::Denied, format!("{name} may not call `{}`: only {others} may", row.name)));
        }
    }
    assert!(FOR_PROCESSES.iter().all(|name| MethodId::from_name(name).is_some()));
}

/// The control of the test above: a row with other callers lets in exactly those.
#[test]
fn a_row_for_others_lets_others_in() {
    let row = MethodRow { callers: &[PrincipalKind::Process, PrincipalKind::Token], ..*MethodId::ToolList.row() };
    assert_eq!((row.allows(&PROCESS), row.allows(&TOKEN)), (Ok(()), Ok(())));
    let refusal = row.allows(&OPERATOR).unwrap_err();
    assert_eq!(refusal.reason, "operator may not call `tool.list`: only a process of the tree or the holder of a token may");
}

/// A change is never dropped half done, unless dropping it is how a client ends it: whoever waits for an end and hangs up has not taken note of it.
#[test]
fn only_reads_and_streams_are_dropped_and_one_method_ends_the_kernel() {
    for row in ROWS {
        let is_wait = row.id == MethodId::ProcWait;
        assert!(
            is_wait || row.hang_up == HangUp::Finishes || row.effect == Effect::Reads || row.delivery == Delivery::Stream,
            "{}",
            row.name
        );
    }
    let ends: Vec<&str> = ROWS.iter().filter(|row| row.effect == Effect::EndsKernel).map(|row| row.name).collect();
    assert_eq!(ends, ["kernel.stop"]);
}

#[test]
fn parameters_are_read_for_the_method_that_was_named() {
    let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
    for row in ROWS {
        let error = MethodCall::parse(row.id, Some(&raw(r#"{"no_such_parameter":1}"#))).unwrap_err();
        assert_eq!((error.data.code, error.message), (ErrorCode::BadInput, format!("the parameters of `{}` are wrong", row.name)));
    }
    assert!(matches!(MethodCall::parse(MethodId::KernelStatus, None), Ok(MethodCall::KernelStatus(Nothing {}))));
    let call = MethodCall::parse(MethodId::TaskShow, Some(&raw(r#"{"task":"task-3"}"#)));
    assert!(matches!(call, Ok(MethodCall::TaskShow(TaskIdParams { task: world::TaskId(3) }))));
}

/// `docs/methods.md` is written from the table; `SKEP_UPDATE=1` writes it again.
#[test]
fn the_document_says_what_the_table_says() {
    let mut text = include_str!("methods.md.head").to_owned();
    for row in ROWS {
        let about = row.about.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        let callers: Vec<String> = row.callers.iter().map(ToString::to_string).collect();
        let effect = match row.effect {
            Effect::Reads => "reads",
            Effect::Changes => "changes",
            Effect::EndsKernel => "ends the kernel",
        };
        let delivery = match row.delivery {
            Delivery::Once => "once",
            Delivery::Stream => "stream",
            Delivery::Duplex => "duplex",
        };
        let hang_up = match row.hang_up {
            HangUp::Drops => "dropped",
            HangUp::Finishes => "finished",
        };
        let wait = row.wait_ms_max.map_or_else(|| "no limit".to_owned(), |ms| format!("{} s", ms / 1_000));
        writeln!(text, "| `{}` | {} | {effect} | {delivery} | {hang_up} | {wait} | {about} |", row.name, callers.join(", ")).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/methods.md");
    if std::env::var_os("SKEP_UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "run the test with SKEP_UPDATE=1");
}
