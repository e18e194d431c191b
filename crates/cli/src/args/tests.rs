use super::*;

#[test]
fn the_command_line_is_sound() {
    command().debug_assert();
}

#[test]
fn every_command_is_in_one_group_and_has_a_purpose_and_examples() {
    let command = command();
    let grouped: Vec<_> = GROUPS.iter().flat_map(|(_, members)| members.iter()).map(|path| path.split(' ').next().unwrap()).collect();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        assert!(grouped.contains(&sub.get_name()), "{} is in no group", sub.get_name());
        for sub in std::iter::once(sub).chain(sub.get_subcommands()) {
            assert!(sub.get_about().is_some(), "{} has no purpose", sub.get_name());
            assert!(sub.get_after_help().is_some_and(|help| help.to_string().contains("skep")), "{} has no examples", sub.get_name());
        }
    }
    for path in GROUPS.iter().flat_map(|(_, members)| members.iter()) {
        assert!(find(&command, path).is_some_and(|found| found.get_about().is_some()), "{path}");
    }
}

#[test]
fn the_overview_fits_a_terminal_of_eighty_columns() {
    let help = command().render_help().to_string();
    let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
    assert_eq!(wide, Vec::<&str>::new());
}

/// An example that is wrapped reads as two, and what all commands take stands last.
#[test]
fn every_example_fits_a_terminal_of_eighty_columns() {
    let command = command();
    let subs = command.get_subcommands().flat_map(|sub| std::iter::once(sub).chain(sub.get_subcommands()));
    let helps = subs.filter_map(|sub| sub.get_after_help()).map(ToString::to_string);
    let wide: Vec<String> = helps
        .flat_map(|help| {
            help.lines().filter(|line| line.starts_with("  ") && line.chars().count() > 80).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(wide, Vec::<String>::new());
    let mut command = command;
    command.build();
    let act = command.find_subcommand_mut("act").unwrap().render_help().to_string();
    assert!(act.find("--zone").unwrap() < act.find("--json").unwrap(), "{act}");
}

#[test]
fn every_argument_says_what_it_is() {
    let command = command();
    let all = command.get_subcommands().flat_map(|sub| std::iter::once(sub).chain(sub.get_subcommands()));
    let bare: Vec<String> = all
        .filter(|sub| !sub.is_hide_set())
        .flat_map(|sub| {
            sub.get_arguments().filter(|arg| arg.get_help().is_none()).map(|arg| format!("{} {}", sub.get_name(), arg.get_id()))
        })
        .collect();
    assert_eq!(bare, Vec::<String>::new());
}

const GOOD: &[&str] = &[
    "skep act fix-it --brain script:b.txt --await --priority -3 --max-calls 7 --zone /tmp",
    "skep ask why",
    "skep act x --who researcher.1@kimi --when disrupt --after task-1 --after task-2 --timeout 5m",
    "skep ask x --prioritize --watch --who ++",
    "skep act x --talk --when enqueue",
    "skep watch --who worker.1 --zone .",
    "skep status site --zone @main",
    "skep status orchestrator",
    "skep status --task task-1",
    "skep status --who worker.1 --zone org/repo@main",
    "skep list sites",
    "skep list zones --site org/repo",
    "skep list crews --zone @main",
    "skep list tasks --site repo",
    "skep zone del --zone @feat --force --yes",
    "skep queue",
    "skep queue rm 2 --who worker.1",
    "skep queue clear --yes",
    "skep queue pause",
    "skep queue resume --who @kimi --json",
    "skep retry task-1 --await",
    "skep resume task-1",
    "skep run report-it --agentic --mode dry_run --max-steps 5 --max-cost 2 --max-tokens 100 --max-iterations 3 --max-duration 5m",
    "skep run --plan plan.yml --mode real --detach --json",
    "skep run x --planner router --no-memory --context-budget 9 --no-critics --priority 1 --unattended --record --tag ci",
    "skep run x --allow-path a --allow-host b --allow-command c --ask-writes --only-tool fs.* --no-tool net.* --scope src --success y",
    "skep plan report-it --brain claude --out p.json",
    "skep plan check plan.yml --allow-path src --zone .",
    "skep plan show plan.yml --all",
    "skep plan run plan.yml for-may --detach --mode mock",
    "skep session list --all --json",
    "skep session show task-1 --all --until 5",
    "skep session watch task-1 --after 0",
    "skep session abort task-1",
    "skep session resume task-1 --detach",
    "skep session replay task-1",
    "skep session replay task-1 --until 12",
    "skep memory list",
    "skep memory show l-1",
    "skep memory forget l-1 l-2 --reason old",
    "skep memory why report-it",
    "skep say task-1 also-this --json",
    "skep talk worker.2 --ask --brain claude --zone .",
    "skep talk --watch --who worker.1",
    "skep drop task-1 --yes",
    "skep call fs.read path=a --zone . --task task-1 --json",
    "skep --json ps",
    "skep top --json",
    "skep review",
    "skep review allow r-1 --reason ok",
    "skep review allow r-1 --for zone --rate 5/1m --set limit=10 --json",
    "skep review deny r-1 --instead fs.write path=a --for-good --for user",
    "skep grant revoke g-1 b-2 t-3",
    "skep token issue fs.* --paths a b --max-ops 3 --ttl 30s -- ./agent --fast",
    "skep call fs.read path=a --mode dry_run --token T",
    "skep call fs.read path=a --mode real",
    "skep policy explain fs.read path=a --task task-1 --candidate --zone .",
    "skep policy trial new.yaml --last 7 --after 3 --before 9",
    "skep policy update new.yaml --yes",
    "skep policy suggest --json",
    "skep journal verify --offline",
    "skep extension-child",
    "skep journal log --pid 3 --task task-1 --kind call --kind brain.said --since 10m --until 2026-01-01 --limit 5",
    "skep journal export --out f",
    "skep sandbox run -t code-executor --timeout 90s --discard -- sh -c ls",
    "skep sandbox shell",
    "skep sandbox pause task-1",
    "skep sandbox ps --json",
    "skep merge task-1 --yes",
    "skep merge",
    "skep merge list",
    "skep merge apply task-1 --mine a --theirs b",
    "skep merge undo task-1",
    "skep merge import -",
    "skep diff task-1 --follow",
    "skep try task-1 --port 8080 -- python3 -m http.server 8080",
    "skep kernel run",
    "skep kernel start --grpc :50051 --startup agents.json",
    "skep kernel restart --grpc unix:///tmp/core",
    "skep spawn queen --role daemon --tier tactical",
    "skep spawn price --python shop:Price --parent queen --env A=b --tokens 5 --cron x --keep-alive",
    "skep kill price --only --grace 5s",
    "skep signal price int",
    "skep signal price SIGSTOP --reason later",
    "skep wait 7 --timeout 5m",
    "skep exec price report --param month=11",
    "skep info p7 --json",
    "skep nice price -5",
    "skep send price hello --kind news --priority high --ttl 5s",
    "skep send --queue results done",
    "skep inbox price --dead",
    "skep inbox --take --queue results",
    "skep artifact list rep --of price",
    "skep artifact show art-3",
    "skep artifact store plan plan.md --visibility global --type text/plain",
    "skep artifact rm art-3",
    "skep cron add nightly x report --target price --action message --overlap queue --missed once --jitter 5s",
    "skep cron rm cron-1",
    "skep cron run cron-1",
    "skep cron next x --timezone UTC --count 3",
    "skep ps --tree",
    "skep help exit-codes",
    "skep help journal verify",
    "skep list tools",
    "skep setup --yes --only anthropic --server http://127.0.0.1:9000 --key env --no-trial",
    "skep usage --by day",
    "skep budget set 1 --money 0.50 --tokens all=2000 --ask",
    "skep budget grant p3 --tokens strategic=5",
    "skep budget set 3 --none",
    "skep budget set 3 --money 0 --ask",
    "skep budget reconcile 3 --money 0",
    "skep gateway run --login claude -- claude -p hello",
    "skep gateway run --record f.jsonl -- true",
    "skep gateway run --replay f.jsonl --timing -- true",
    "skep act fix-it --record",
    "skep replay task-3 --timing --json",
    "skep cassette export task-3 --out f.jsonl",
    "skep completions zsh",
];
const BAD: &[&str] = &[
    "skep grant revoke task-1",
    "skep token issue",
    "skep token issue fs.read --ttl 30",
    "skep call fs.read --mode dry",
    "skep policy",
    "skep",
    "skep act",
    "skep diff 7",
    "skep say task-1",
    "skep run",
    "skep run x --mode dry",
    "skep run x --priority 6",
    "skep run x --max-steps 0",
    "skep run x --planner nobody",
    "skep run x --brain claude --model fast",
    "skep plan",
    "skep plan check",
    "skep session",
    "skep session show 4",
    "skep session replay task-1 --verify --until 3",
    "skep memory forget",
    "skep memory show task-1",
    "skep act x --watch --talk",
    "skep act x --watch --await",
    "skep act x --when later",
    "skep act x --new --who worker.1",
    "skep act x --after 3",
    "skep act x --timeout 5",
    "skep watch task-1 --who worker.1",
    "skep queue rm",
    "skep status everything",
    "skep status task-1 --task task-2",
    "skep zone",
    "skep talk --watch --ask",
    "skep talk worker.1 --who worker.2",
    "skep drop",
    "skep review allow task-1",
    "skep journal log --kind calls",
    "skep list people",
    "skep usage --by week",
    "skep budget grant 3",
    "skep budget reconcile 3",
    "skep budget set 3 --none --money 5",
    "skep budget set 3",
    "skep budget set 3 --ask",
    "skep budget set 3 --money -5",
    "skep budget set 3 --requests-per-minute 0",
    "skep budget set 3 --context 0",
    "skep gateway run",
    "skep gateway run --timing -- true",
    "skep replay 3",
    "skep setup --key config",
    "skep sandbox run",
    "skep sandbox run ls",
    "skep sandbox pause 7",
    "skep spawn",
    "skep spawn x --role kernel",
    "skep spawn x --tier low",
    "skep spawn x --python a:B --custom c",
    "skep spawn x --keep-alive",
    "skep spawn x --env A",
    "skep kill",
    "skep kill 7 --force --grace 5s",
    "skep signal 7",
    "skep signal 7 USR1",
    "skep nice 7 high",
    "skep send",
    "skep send 7 x --priority urgent",
    "skep inbox 7 --take",
    "skep inbox --queue q",
    "skep artifact rm report",
    "skep artifact store x --visibility all",
    "skep cron add x",
    "skep cron add x y --action spawn",
    "skep cron rm 1",
    "skep cron next x --count 0",
];

#[test]
fn what_people_type_is_understood() {
    let parse = |line: &str| Cli::try_parse_from(line.split_whitespace());
    for good in GOOD {
        assert!(parse(good).is_ok(), "{good}: {}", parse(good).unwrap_err());
    }
    for bad in BAD {
        assert!(parse(bad).is_err(), "{bad}");
    }
}
