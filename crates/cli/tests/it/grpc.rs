//! The process tree over gRPC, by a Python client that is made from the protos alone, against the real kernel.

use crate::common::{Site, text};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// As the contract tests of `hive` install them.
const PACKAGES: [&str; 2] = ["grpcio==1.85.1", "grpcio-tools==1.85.1"];
const PROTOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../hive/proto");
const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/tree_client.py");

/// All of the service, as its proto has them.
const METHODS: [&str; 22] = [
    "AddCron",
    "Escalate",
    "ExecuteTask",
    "GetArtifact",
    "GetProcessInfo",
    "GetResourceUsage",
    "KillChild",
    "ListArtifacts",
    "ListChildren",
    "ListCron",
    "ListInbox",
    "ListSiblings",
    "Log",
    "RemoveCron",
    "ReportMetric",
    "RequestResources",
    "SendMessage",
    "SpawnChild",
    "StoreArtifact",
    "Subscribe",
    "SubscribeEvents",
    "WaitChild",
];

fn ran(command: &mut Command, what: &str) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{what}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Where Python finds grpc, installed once for all tests.
pub fn python_packages() -> PathBuf {
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grpc").join(PACKAGES.join("_").replace('=', ""));
    fs::create_dir_all(&shared).unwrap();
    let lock = fs::File::create(shared.join("lock")).unwrap();
    lock.lock().unwrap();
    let (packages, is_done) = (shared.join("packages"), shared.join("installed"));
    if !is_done.exists() {
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]).arg(&packages).args(PACKAGES);
        ran(&mut install, "pip could not install grpc; is its index in reach?");
        fs::write(&is_done, PACKAGES.join("\n")).unwrap();
    }
    packages
}

/// The same with the modules of today's protos.
fn python_path(site: &Site) -> String {
    let packages = python_packages();
    let made = site.folder.path().join("made");
    fs::create_dir_all(&made).unwrap();
    let mut protoc = Command::new("python3");
    protoc.env("PYTHONPATH", &packages).args(["-m", "grpc_tools.protoc", "-I", PROTOS]);
    protoc.arg(format!("--python_out={}", made.display())).arg(format!("--grpc_python_out={}", made.display()));
    ran(protoc.args(["agent.proto", "core.proto"]), "protoc does not take the protos");
    format!("{}:{}", packages.display(), made.display())
}

/// A kernel that serves the tree, and its two addresses: the socket in the home, and a port.
fn served(settings: &str) -> (Site, String, String) {
    let site = Site::new(&[]);
    fs::create_dir_all(site.home()).unwrap();
    fs::set_permissions(site.home(), PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(site.home().join("config.yml"), settings).unwrap();
    site.ok(&["kernel", "start", "--grpc", "127.0.0.1:0"]);
    let status = site.json(&["kernel", "status"]);
    let [unix, tcp] = [0, 1].map(|at| status["grpc"][at].as_str().unwrap_or_else(|| panic!("{status}")).to_owned());
    (site, unix, tcp)
}

fn client(site: &Site, arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", python_path(site)).env("PYTHONDONTWRITEBYTECODE", "1").arg(CLIENT).args(arguments);
    command
}

#[test]
fn python_calls_every_method_of_the_kernel() {
    let (site, unix, tcp) = served("grpc: {trust_pid_header: true}\n");
    let said = ran(&mut client(&site, &["every_method", &unix, &tcp]), "the client says no");
    let mut methods: Vec<&str> = said.lines().collect();
    methods.sort_unstable();
    assert_eq!(methods, METHODS);
    // What happened is on record, by the names that policies know.
    let records = site.records(&[]);
    for kind in ["proc.spawned", "message.sent", "artifact.stored", "escalation.raised", "cron.added", "proc.exited", "proc.collected"] {
        assert!(records.iter().any(|record| record["type"] == kind), "no {kind}");
    }
    assert!(site.ok(&["journal", "verify"]).starts_with('✓'));
}

#[test]
fn only_who_is_proven_is_answered() {
    let (site, unix, tcp) = served("");
    let socket = Path::new(unix.strip_prefix("unix://").unwrap());
    assert_eq!(socket, site.home().join("grpc.sock"));
    assert_eq!(fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);
    let said = ran(&mut client(&site, &["identity", &unix, &tcp]), "the client says no");
    let expected = "\
UNAUTHENTICATED x-hivekernel-pid alone proves nothing here: send x-skep-secret
UNAUTHENTICATED missing x-hivekernel-pid
UNAUTHENTICATED missing x-skep-secret
UNAUTHENTICATED wrong x-skep-secret
INVALID_ARGUMENT invalid pid: abc
UNAUTHENTICATED missing x-hivekernel-pid
PERMISSION_DENIED you are the operator, and x-hivekernel-pid says 3: say 1, or set `grpc: {trust_pid_header: true}` in config.yml
the operator is answered
";
    assert_eq!(said, expected);
}

const KEEPER: &str = "\
from skep import Agent, Task, TaskResult


class Keeper(Agent):
    async def handle_task(self, task: Task) -> TaskResult:
        # The package keeps it out of the variables that the agent sees and hands on.
        with open('/proc/self/environ', encoding='utf-8') as file:
            given = dict(one.split('=', 1) for one in file.read().split('\\0') if one)
        return TaskResult(output=given['SKEP_SECRET'])
";

/// Each program outside sandboxes has a secret of its own, which proves its process on a port, and nobody else's does.
#[test]
fn a_secret_proves_one_process_on_a_port() {
    let site = Site::new(&[("keeper.py", KEEPER)]);
    let started = site.command(&["kernel", "start", "--grpc", "127.0.0.1:0"]).env("PYTHONPATH", python_packages()).output().unwrap();
    assert!(started.status.success(), "{}", text(&started));
    let tcp = site.json(&["kernel", "status"])["grpc"][1].as_str().unwrap().to_owned();
    let [one, two] = ["one", "two"].map(|name| {
        site.ok(&["spawn", name, "--python", "keeper:Keeper", "--role", "agent", "--unconfined"]);
        let pid = site.json(&["info", name])["pid"].to_string();
        (pid, site.ok(&["exec", name, "tell"]).trim().to_owned())
    });
    assert_ne!(one.1, two.1);
    let said = ran(&mut client(&site, &["secrets", &tcp, &one.0, &one.1, &two.0, &two.1]), "the client says no");
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        [
            "right: answered",
            "right, without a pid: answered",
            "wrong: UNAUTHENTICATED wrong x-skep-secret",
            "missing: UNAUTHENTICATED x-hivekernel-pid alone proves nothing here: send x-skep-secret",
            &format!("another's: PERMISSION_DENIED you are process {}, and x-hivekernel-pid says {}", two.0, one.0),
            "another's, with the other's pid: answered",
        ]
    );
    // It is worth nothing when its process has ended; the other's still is.
    site.ok(&["kill", "one"]);
    let said = ran(&mut client(&site, &["secrets", &tcp, &two.0, &two.1, &one.0, &one.1]), "the client says no");
    assert!(said.starts_with("right: answered\n"), "{said}");
    assert!(said.ends_with("another's, with the other's pid: UNAUTHENTICATED wrong x-skep-secret\n"), "{said}");
    let journal = site.ok(&["journal", "log", "--json"]);
    assert!(!journal.contains(&one.1) && !journal.contains(&two.1), "no record has it");
}

/// HiveKernel could not be stopped while somebody was subscribed.
#[test]
fn open_streams_do_not_hold_up_the_end() {
    let (site, unix, _) = served("");
    let mut python = client(&site, &["open_streams", &unix]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(python.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    let mut said = String::new();
    if first != "open\n" {
        python.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        panic!("{first}{said}");
    }
    let asked = Instant::now();
    site.ok(&["kernel", "stop"]);
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    lines.read_to_string(&mut said).unwrap();
    assert_eq!(said.lines().count(), 3, "every stream and every wait has ended: {said}");
    assert!(python.wait().unwrap().success());
    assert!(!site.home().join("grpc.sock").exists());
}

#[test]
fn an_address_of_the_network_is_refused_with_the_way_out() {
    let site = Site::new(&[]);
    let said = site.fails(2, &["kernel", "start", "--grpc", "0.0.0.0:50051"]);
    assert!(said.contains("the gRPC address `0.0.0.0:50051` cannot be used") && said.contains("why") && said.contains("fix"), "{said}");
    let said = site.fails(5, &["kernel", "start", "--grpc", ":0", "--startup", "no/such.json"]);
    assert!(said.contains("cannot read the startup file") && said.contains("fix"), "{said}");
    // The control: an address of this machine.
    let said = site.ok(&["kernel", "start", "--grpc", ":0"]);
    assert!(said.contains("grpc  127.0.0.1:"), "{said}");
    let said = site.fails(9, &["kernel", "start", "--grpc", ":0"]);
    assert!(said.contains("runs already") && said.contains("skep kernel restart"), "{said}");
    // A kernel that nobody told to serve it does not.
    site.ok(&["kernel", "restart"]);
    assert!(site.json(&["kernel", "status"])["grpc"].is_null());
    // The settings say it as well.
    fs::write(site.home().join("config.yml"), "grpc: {listen: '[::]:7'}\n").unwrap();
    site.ok(&["kernel", "stop"]);
    let said = site.fails(14, &["kernel", "start"]);
    assert!(said.contains("`[::]:7` cannot be used"), "{said}");
}

const SHOP: &str = "\
import sys
from skep import Agent, Task, TaskResult


class PriceChecker(Agent):
    async def handle_task(self, task: Task) -> TaskResult:
        if task.description == 'fail':
            return TaskResult(exit_code=7, output='seven')
        await self.store('last', task.description)
        return TaskResult(output=f'{task.description}: {task.params.get(\"price\", \"42\")}')
";

/// An agent of the Python package, in its room, by commands alone.
#[test]
fn an_agent_in_python_is_directed_by_commands() {
    let site = Site::new(&[("shop.py", SHOP)]);
    let started = site.command(&["kernel", "start"]).env("PYTHONPATH", python_packages()).output().unwrap();
    assert!(started.status.success(), "{}", text(&started));
    site.ok(&["spawn", "price", "--python", "shop:PriceChecker", "--role", "agent"]);
    assert_eq!(site.ok(&["exec", "price", "kettle"]), "kettle: 42\n");
    assert_eq!(site.ok(&["exec", "price", "pot", "--param", "price=7"]), "pot: 7\n");
    let failed = site.skep(&["exec", "price", "fail"]);
    assert_eq!((failed.status.code(), String::from_utf8_lossy(&failed.stdout).as_ref()), (Some(1), "seven\n"), "{}", text(&failed));
    assert_eq!(site.ok(&["artifact", "show", "last"]), "pot");
    let info = site.json(&["info", "price"]);
    assert_eq!((&info["program"]["is_up"], &info["program"]["confined"]), (&true.into(), &true.into()), "{info}");
    assert!(!site.ok(&["ps"]).contains("unconfined"));
    // A start that fails says what the program said.
    let said = text(&site.skep(&["spawn", "none", "--python", "shop:NoSuchClass"]));
    assert!(said.contains("NoSuchClass") && said.contains("why") && said.contains("fix"), "{said}");
    site.ok(&["kill", "price"]);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}
