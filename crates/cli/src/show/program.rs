//! Processes of the tree: the table of `skep ps`, and one of them whole.

use super::measure::{ago, count, dollars};
use super::process::{mark, word};
use super::{Line, Node, Page, table, tree};
use wire::method::process::{CapView, ProcView};
use wire::{Pid, ProcessExit, ProcessState};

/// Columns in the order of the table, and which of them a narrow terminal loses first.
const COLUMNS: [&str; 11] = ["PID", "PPID", "USER", "ROLE", "COG", "MODEL", "NODE", "STATE", "CTX", "TOKENS", "COMMAND"];
const DISPENSABLE: [&str; 6] = ["NODE", "PPID", "USER", "CTX", "MODEL", "COG"];
/// Fewer columns for the last one tell nothing.
const COMMAND_MIN: usize = 16;

/// `skep ps`. Figures that only the process itself says stand behind `~`.
pub fn list(processes: &[ProcView], columns: Option<usize>) -> Page {
    let mut order: Vec<&ProcView> = processes.iter().collect();
    order.sort_by_key(|process| process.pid);
    let rows: Vec<[Line; 11]> = order.into_iter().map(row).collect();
    let mut left: Vec<usize> = (0..COLUMNS.len()).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0).max(COLUMNS[column].len());
    let last = COLUMNS.len() - 1;
    for name in DISPENSABLE {
        let needed: usize = left.iter().filter(|column| **column != last).map(|column| width(*column) + 2).sum::<usize>() + COMMAND_MIN;
        if columns.is_none_or(|columns| needed <= columns) {
            break;
        }
        left.retain(|column| COLUMNS[*column] != name);
    }
    let head = left.iter().map(|column| Line::new().faint(COLUMNS[*column])).collect();
    let body = rows.into_iter().map(|row| left.iter().map(|column| row[*column].clone()).collect());
    table(std::iter::once(head).chain(body).collect())
}

fn or_dash(text: &str) -> Line {
    if text.is_empty() { Line::new().faint("-") } else { Line::new().plain(text) }
}

fn row(process: &ProcView) -> [Line; 11] {
    let program = process.program.as_deref();
    let role = program.map_or_else(|| process.role_shown().to_owned(), |program| program.role.as_str().to_owned());
    let tier = program.map(|program| short_tier(program.tier.as_str()));
    let model = program.map(|program| program.model.as_str()).filter(|model| !model.is_empty()).or(process.model.as_deref());
    let mut command = Line::new().strong(&process.name);
    if let Some(task) = process.task {
        command = command.name(format!(" {task}"));
    }
    if program.is_some_and(|program| !program.confined && !program.image.is_empty()) {
        command = command.bad(" unconfined");
    }
    [
        Line::new().plain(process.pid.to_string()),
        or_dash(&process.parent.map(|parent: Pid| parent.to_string()).unwrap_or_default()),
        or_dash(&process.user),
        Line::new().plain(role),
        or_dash(tier.unwrap_or_default()),
        or_dash(model.unwrap_or_default()),
        or_dash(program.map(|program| program.node.as_str()).unwrap_or_default()),
        mark(process.state).plain(word(process.state)),
        context(process),
        tokens(process),
        command,
    ]
}

fn short_tier(tier: &str) -> &str {
    match tier {
        "strategic" => "strat",
        "tactical" => "tact",
        _ => "oper",
    }
}

/// `~45k/128k`: what of its context is full is always a claim.
fn context(process: &ProcView) -> Line {
    let Some(program) = &process.program else { return Line::new().faint("-") };
    match (program.context_permille, program.limits.context) {
        (Some(permille), Some(max)) => Line::new().plain(format!("~{}/{}", short(max.saturating_mul(permille.into()) / 1_000), short(max))),
        (Some(permille), None) => Line::new().plain(format!("~{}%", permille / 10)),
        (None, Some(max)) => Line::new().faint(format!("-/{}", short(max))),
        (None, None) => Line::new().faint("-"),
    }
}

/// `12.4k`, and behind `of` the cap that is nearest its end: `12.4k of 50k`, `900 of 1k/h` where an hour's or a day's is.
fn tokens(process: &ProcView) -> Line {
    let used = tokens_used(process);
    let caps = process.caps.iter().filter_map(|cap| Some((wire::budget::Cap::parse(&cap.what)?, cap)));
    let share = |cap: &CapView| u128::from(cap.used) * 1_000_000 / u128::from(cap.cap.max(1));
    let nearest = caps.filter(|(what, _)| !what.is_money()).max_by_key(|(_, cap)| share(cap));
    match nearest {
        None => used,
        Some((wire::budget::Cap::PerHour(_), cap)) => used.faint(format!(" {} of {}/h", short(cap.used), short(cap.cap))),
        Some((wire::budget::Cap::PerDay(_), cap)) => used.faint(format!(" {} of {}/d", short(cap.used), short(cap.cap))),
        Some((_, cap)) => used.faint(format!(" of {}", short(cap.cap))),
    }
}

fn tokens_used(process: &ProcView) -> Line {
    match &process.program {
        Some(program) if program.tokens_claimed > 0 => Line::new().plain(format!("~{}", short(program.tokens))),
        Some(program) => Line::new().plain(short(program.tokens)),
        None if process.tokens > 0 => Line::new().plain(short(process.tokens)),
        None => Line::new().faint("-"),
    }
}

/// `12.4k`, `45k`, `1.2M`
pub fn short(n: u64) -> String {
    let (unit, letter) = match n {
        0..1_000 => return n.to_string(),
        1_000..1_000_000 => (1_000, "k"),
        _ => (1_000_000, "M"),
    };
    let tenths = n / (unit / 10);
    if tenths >= 1_000 || tenths.is_multiple_of(10) {
        format!("{}{letter}", tenths / 10)
    } else {
        format!("{}.{}{letter}", tenths / 10, tenths % 10)
    }
}

/// `skep info`.
pub fn info(process: &ProcView, now_ms: i64) -> Page {
    let fact = |name: &str, value: Line| Node::new(Line::new().faint(name)).cell(value);
    let plain = |text: String| Line::new().plain(text);
    let mut root = Node::new(mark(process.state).strong(&process.name).faint(format!("  pid {}", process.pid)))
        .under(fact("state", Line::new().plain(word(process.state))));
    if let Some(parent) = process.parent {
        root = root.under(fact("parent", plain(parent.to_string())));
    }
    root = root.under(fact("user", or_dash(&process.user)));
    let Some(program) = &process.program else {
        root = root.under(fact("role", Line::new().plain(process.role_shown()))).under(fact("calls", plain(count(process.calls_made))));
        root = process.caps.iter().map(cap).fold(root, |root, (name, text)| root.under(fact(&name, plain(text))));
        return tree(&root.under(fact("started", plain(ago(process.started_ms, now_ms)))));
    };
    root = root.under(fact("role", plain(format!("{}, {}", program.role.as_str(), program.tier.as_str()))));
    if !program.model.is_empty() {
        root = root.under(fact("model", Line::new().plain(&program.model)));
    }
    let runs = match (program.image.is_empty(), program.confined) {
        (true, _) => Line::new().faint("nothing: it is virtual"),
        (false, true) => plain(format!("{} {}", program.runtime.as_str(), program.image)).faint(", in a sandbox"),
        (false, false) => plain(format!("{} {}", program.runtime.as_str(), program.image)).bad(", outside the sandbox"),
    };
    root = root.under(fact("runs", runs));
    if program.incarnation > 0 {
        let now = if program.is_up { "runs" } else { "does not run" };
        let os_pid = program.os_pid.map(|os_pid| format!(", os pid {os_pid}")).unwrap_or_default();
        root = root.under(fact("program", plain(format!("{now}, start {}{os_pid}", program.incarnation))));
    }
    if let Some(address) = &program.address {
        root = root.under(fact("address", Line::new().plain(address)));
    }
    if let Some(task) = process.task {
        root = root.under(fact("task", Line::new().name(task.to_string())));
    }
    root = root.under(fact("context", context(process))).under(fact("tokens", tokens_used(process)));
    root = process.caps.iter().map(cap).fold(root, |root, (name, text)| root.under(fact(&name, plain(text))));
    if let Some(memory) = program.limits.memory_mb {
        let used = program.memory_bytes.map(|bytes| format!("{} MiB of ", count(bytes >> 20))).unwrap_or_default();
        root = root.under(fact("memory", plain(format!("{used}{} MiB", count(memory))).faint(", with all below it")));
    }
    if let Some(milli) = program.limits.cpu_milli {
        let processors = format!("{}.{:03}", milli / 1_000, milli % 1_000);
        let processors = processors.trim_end_matches('0').trim_end_matches('.').to_owned();
        root = root.under(fact("processors", plain(processors).faint(", with all below it")));
    }
    if let Some(children) = program.limits.children {
        root = root.under(fact("children", plain(format!("at most {}", count(children)))));
    }
    if let (ProcessState::Blocked, Some(reason)) = (process.state, program.blocked_on) {
        root = root.under(fact("waits for", Line::new().wait(format!("{reason:?}").to_ascii_lowercase())));
    }
    root = root.under(fact("started", plain(ago(process.started_ms, now_ms))));
    if let Some(ProcessExit { code, output, .. }) = &program.exit {
        let code = code.map_or_else(|| "nobody knows with which code".to_owned(), |code| format!("with {code}"));
        root = root.under(fact("ended", plain(code)));
        if let Some(last) = output.lines().last() {
            root = root.under(fact("output", Line::new().plain(last)));
        }
    }
    let mut page = tree(&root);
    if let Some(error) = &program.last_error {
        page.block("  ", super::Tone::Bad, error);
    }
    page
}

/// A cap with what counts under it, of the process and everything below it.
fn cap(view: &CapView) -> (String, String) {
    let is_money = wire::budget::Cap::parse(&view.what).is_some_and(|what| what.is_money());
    let amount = if is_money { dollars } else { count };
    let name = if view.what == "tokens" { "tokens in all" } else { &view.what };
    (name.to_owned(), format!("{} of {}", amount(view.used), amount(view.cap)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::show::process::tests::process;
    use wire::method::program::ProgramView;
    use wire::{ProcessRole, ProgramLimits, ProgramRuntime, TaskId, Tier};

    pub(crate) fn program(role: ProcessRole, tier: Tier, model: &str) -> Box<ProgramView> {
        Box::new(ProgramView {
            role,
            tier,
            model: model.into(),
            node: "vps1".into(),
            runtime: ProgramRuntime::Virtual,
            image: String::new(),
            confined: true,
            incarnation: 0,
            is_up: false,
            os_pid: None,
            address: None,
            tokens: 0,
            tokens_claimed: 0,
            context_permille: None,
            limits: ProgramLimits::default(),
            memory_bytes: None,
            blocked_on: None,
            exit: None,
            last_error: None,
        })
    }

    fn reference() -> Vec<ProcView> {
        let of = |pid, parent, name: &str, state, user: &str, program: Option<Box<ProgramView>>| ProcView {
            user: user.into(),
            program,
            ..process(pid, parent, name, state)
        };
        let mut scout = program(ProcessRole::Agent, Tier::Tactical, "sonnet");
        (scout.context_permille, scout.limits.context, scout.tokens, scout.tokens_claimed) = (Some(352), Some(128_000), 12_400, 12_400);
        let mut free = program(ProcessRole::Task, Tier::Operational, "mini");
        (free.runtime, free.image, free.confined, free.tokens) = (ProgramRuntime::Custom, "/opt/bot".into(), false, 900);
        let mut worker = of(3, Some(1), "worker.1", ProcessState::Running, "ann", None);
        (worker.task, worker.model, worker.tokens) = (Some(TaskId(7)), Some("opus".into()), 1_234_567);
        vec![
            of(1, None, "kernel", ProcessState::Running, "ann", None),
            worker,
            of(4, Some(1), "queen@vps1", ProcessState::Running, "root", Some(program(ProcessRole::Daemon, Tier::Tactical, "sonnet"))),
            of(5, Some(4), "Dora", ProcessState::Sleeping, "dora", Some(scout)),
            of(6, Some(4), "disk-monitor", ProcessState::Blocked, "root", Some(free)),
        ]
    }

    #[test]
    fn the_table_has_the_columns_of_the_reference() {
        let expected = "\
PID  PPID  USER  ROLE    COG   MODEL   NODE  STATE       CTX        TOKENS  COMMAND
1    -     ann   worker  -     -       -     ● running   -          -       kernel
3    1     ann   worker  -     opus    -     ● running   -          1.2M    worker.1 task-7
4    1     root  daemon  tact  sonnet  vps1  ● running   -          0       queen@vps1
5    4     dora  agent   tact  sonnet  vps1  ◌ sleeping  ~45k/128k  ~12.4k  Dora
6    4     root  task    oper  mini    vps1  ◍ blocked   -          900     disk-monitor unconfined
";
        assert_eq!(list(&reference(), None).render(false, None), expected);
    }

    #[test]
    fn a_narrow_terminal_loses_columns_and_keeps_the_names() {
        for columns in [80, 60, 50] {
            let text = list(&reference(), Some(columns)).render(false, Some(columns));
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}:\n{text}");
            assert!(
                text.contains("PID") && text.contains("STATE") && text.contains("Dora") && text.contains("disk-monitor"),
                "{columns}:\n{text}"
            );
        }
        let text = list(&reference(), Some(80)).render(false, Some(80));
        assert!(text.starts_with("PID  USER  ROLE") && !text.contains("NODE"), "{text}");
    }

    #[test]
    fn caps_are_shown_with_what_is_used_of_them() {
        let cap = |what: &str, used, cap| CapView { what: what.into(), used, cap };
        let mut all = reference();
        let scout = all.iter_mut().find(|process| process.name == "Dora").unwrap();
        scout.caps = vec![cap("tokens", 12_400, 50_000), cap("tactical tokens a day", 900, 1_000), cap("money a day", 250_000, 5_000_000)];
        let program = scout.program.as_mut().unwrap();
        (program.limits.memory_mb, program.limits.cpu_milli, program.memory_bytes) = (Some(512), Some(1_500), Some(90 << 20));
        let text = info(scout, 5_000).render(false, None);
        assert!(text.contains("90 MiB of 512 MiB, with all below it") && text.contains("1.5, with all below it"), "{text}");
        for line in ["tokens                 ~12.4k", "tokens in all          12,400 of 50,000", "tactical tokens a day  900 of 1,000"] {
            assert!(text.contains(line), "no `{line}` in\n{text}");
        }
        assert!(text.contains("money a day            $0.25 of $5.00"), "{text}");
        // The one that is nearest its end.
        assert!(list(&all, None).render(false, None).contains("~12.4k 900 of 1k/d  Dora"));
        all.iter_mut().for_each(|process| process.caps.truncate(1));
        assert!(list(&all, None).render(false, None).contains("~12.4k of 50k  Dora"));
    }

    #[test]
    fn figures_are_short() {
        assert_eq!([0, 999, 1_000, 12_400, 45_056, 128_000, 1_234_567].map(short), ["0", "999", "1k", "12.4k", "45k", "128k", "1.2M"]);
    }

    #[test]
    fn one_process_tells_what_it_runs_and_how_it_ended() {
        let mut all = reference();
        let ended = all.last_mut().unwrap();
        ended.state = ProcessState::Zombie;
        let program = ended.program.as_mut().unwrap();
        program.exit = Some(ProcessExit { code: Some(7), output: "one\nseven\n".into(), ..ProcessExit::default() });
        program.last_error = Some("Traceback\x1b[2J".into());
        let expected = "\
✓ disk-monitor  pid 6
├─ state    ended
├─ parent   4
├─ user     root
├─ role     task, operational
├─ model    mini
├─ runs     custom /opt/bot, outside the sandbox
├─ context  -
├─ tokens   900
├─ started  5s ago
├─ ended    with 7
└─ output   seven
  Traceback\\x1b[2J
";
        assert_eq!(info(ended, 5_000).render(false, None), expected);
    }
}
