//! Rooms made by Podman, from the command line to the journal.

use crate::common::provider::eventually;
use crate::common::{Site, pid_of};
use std::os::unix::fs::DirBuilderExt;

/// A home whose operator has fixed the runtime.
fn site(config: &str, files: &[(&str, &str)]) -> Site {
    let site = Site::new(files);
    std::fs::DirBuilder::new().mode(0o700).create(site.home()).unwrap();
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site
}

#[test]
fn a_task_works_in_containers() {
    let site = site("runtime: podman\n", &[("a.txt", "old\n"), (".env", "SECRET=1\n")]);
    let look = r#"echo new > a.txt; cat .env; id -u; test -e /.skep && echo contained"#;
    let brain = site.script(&format!(
        "call shell.run command=[\"sh\", \"-c\", {}]\ncall fs.write path=b.txt content=\"made\\n\"\ncall fs.read path=a.txt\ndone\n",
        serde_json::Value::from(look)
    ));
    let task = site.json(&["act", "work in a container", "--brain", &brain, "--await"])["task"].as_str().unwrap().to_owned();
    let finished: Vec<String> =
        site.records(&[]).iter().filter(|record| record["type"] == "call.finished").map(|record| record["payload"].to_string()).collect();
    assert_eq!(finished.len(), 3, "{finished:?}");
    assert!(finished[0].contains("64800") && finished[0].contains("contained"), "{}", finished[0]);
    assert!(!finished[0].contains("SECRET"), "{}", finished[0]);
    assert!(finished[2].contains("new"), "{}", finished[2]);
    let diff = site.ok(&["diff", &task, "--text"]);
    assert!(diff.contains("+new") && diff.contains("+made"), "{diff}");
    // The project itself is as it was.
    assert_eq!(site.read("a.txt"), "old\n");
    site.ok(&["merge", &task, "--yes"]);
    assert_eq!((site.read("a.txt"), site.read("b.txt")), ("new\n".into(), "made\n".into()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// What may not be read is masked in a container as in any room, and is seen again once a person says yes.
#[test]
fn masks_follow_the_policy_in_containers_too() {
    let site = site(
        "runtime: podman\n",
        &[("a.txt", "open\n"), ("private/x.txt", "SECRET\n"), ("asked/y.txt", "LATER\n"), (".envrc", "SECRET\n")],
    );
    std::fs::hard_link(site.project().join("private/x.txt"), site.project().join("linked.txt")).unwrap();
    site.ok(&["init"]);
    let rules = "\n  - {name: private, match: {syscall: fs.read, path_glob: '/private/**'}, action: deny}\n  \
                 - {name: asked, match: {syscall: fs.read, path_glob: '/asked/**'}, action: require_review}\n";
    site.write(".skep/policy.yaml", &format!("{}{rules}", site.read(".skep/policy.yaml")));
    site.trust();
    let look = r#"call shell.run command=["sh", "-c", "cat a.txt private/x.txt asked/y.txt .envrc linked.txt; mv private p; true"]"#;
    let brain = site.script(&format!("{look}\ncall fs.read path=asked/y.txt\n{look}\ndone\n"));
    site.fails(4, &["act", "look around", "--brain", &brain, "--await"]);
    site.ok(&["review", "allow", "r-1", "--for", "session"]);
    eventually("it has looked twice", || site.count("call.finished") == 3);
    let saw: Vec<String> =
        site.records(&["--kind", "call.finished"]).iter().map(|end| end["payload"]["output"]["stdout"].to_string()).collect();
    assert_eq!((saw[0].as_str(), saw[2].as_str()), (r#""open\n""#, r#""open\nLATER\n""#), "{saw:?}");
}

/// What the operator runs ends with the kernel's stop, container and all, and what it wrote is offered.
#[test]
fn a_stop_ends_the_operators_container_and_keeps_its_work() {
    let site = site("runtime: podman\n", &[("a.txt", "old\n")]);
    site.ok(&["init"]);
    let mut run = site.command(&["sandbox", "run", "--", "sh", "-c", "echo kept > b.txt; sleep 60473"]);
    let run = run.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    eventually("the command runs", || pid_of(&["sleep", "60473"]).is_some());
    let name = format!("name=^skep-{}-", site.json(&["kernel", "status"])["os_pid"]);
    let containers = || {
        let listed = std::process::Command::new("podman").args(["ps", "-aq", "--filter", &name]).output().unwrap();
        String::from_utf8(listed.stdout).unwrap().lines().count()
    };
    assert_eq!(containers(), 1, "control: its container has this name");
    site.ok(&["kernel", "stop"]);
    assert_eq!((pid_of(&["sleep", "60473"]), containers()), (None, 0), "something of it is left");
    let said = crate::common::text(&run.wait_with_output().unwrap());
    assert!(said.contains("the kernel is stopping") && said.contains("skep diff task-1"), "{said}");
    let log = std::fs::read_to_string(site.home().join("run/kernel.log")).unwrap();
    assert!(!log.contains("did not stop in time"), "{log}");
    eventually("the next kernel offers it", || site.ok(&["merge", "list"]).contains("waits for you"));
    assert!(site.ok(&["diff", "task-1"]).contains("+kept"));
}

#[test]
fn an_engine_that_is_not_there_is_a_refusal_with_its_remedy() {
    let site = site("runtime: docker\n", &[("a.txt", "old\n")]);
    let doctor = crate::common::text(&site.skep(&["doctor"]));
    assert!(doctor.contains("✗ docker") && doctor.contains("apt-get install docker.io"), "{doctor}");
    assert!(doctor.contains("✓ podman"), "{doctor}");
    let brain = site.script("call shell.run command=[\"true\"]\ndone\n");
    let said = crate::common::text(&site.skep(&["act", "try", "--brain", &brain, "--await"]));
    assert!(said.contains("no docker answers on this host") && said.contains("apt-get install docker.io"), "{said}");
    assert_eq!(site.count("call.finished"), 0);
}

#[test]
fn a_project_does_not_change_what_the_operator_fixed() {
    let site = site("runtime: native\n", &[("skep.yml", "runtime: podman\n")]);
    site.fails(11, &["init"]);
    site.trust();
    let brain = site.script("call shell.run command=[\"true\"]\ndone\n");
    let said = crate::common::text(&site.skep(&["act", "try", "--brain", &brain, "--await"]));
    assert!(said.contains("this project wants sandboxes of podman, and the operator has fixed native"), "{said}");
}

#[test]
fn a_template_names_who_makes_its_rooms() {
    let command = r#"["sh", "-c", "test -e /.skep && echo contained; cat shell.txt; echo tested > test.txt; cat .env"]"#;
    let config = format!(
        "test:\n  command: {command}\nsandbox:\n  templates:\n    code-executor:\n      runtime: podman\n  tools:\n    test.run: code-executor\n"
    );
    let policy = "capabilities:\n- {name: work, match: {syscall: '*'}, action: allow}\n\
                  - {name: merges, match: {syscall: merge.apply}, action: require_review}\n";
    let site = site("{}\n", &[("skep.yml", &config), (".skep/policy.yaml", policy), ("a.txt", "old\n"), (".env", "SECRET=1\n")]);
    site.fails(11, &["init"]);
    site.trust();
    assert!(site.ok(&["sandbox", "templates"]).contains("code-executor runs in podman"));
    let look = |look: &str| format!("call shell.run command=[\"sh\", \"-c\", {}]\n", serde_json::Value::from(look));
    let brain = site.script(&format!(
        "{}call test.run\n{}done\n",
        look("test -e /.skep || echo native; echo shell > shell.txt; rm a.txt"),
        look("test -e /.skep || echo native; cat test.txt; ls a.txt")
    ));
    let task = site.json(&["act", "work here and there", "--brain", &brain, "--await"])["task"].as_str().unwrap().to_owned();
    let finished: Vec<String> =
        site.records(&[]).iter().filter(|record| record["type"] == "call.finished").map(|record| record["payload"].to_string()).collect();
    assert_eq!(finished.len(), 3, "{finished:?}");
    assert!(finished[0].contains("native"), "{}", finished[0]);
    assert!(finished[1].contains("contained\\nshell") && !finished[1].contains("SECRET"), "{}", finished[1]);
    assert!(finished[2].contains("native\\ntested") && finished[2].contains("No such file"), "{}", finished[2]);
    site.ok(&["merge", &task, "--yes"]);
    assert_eq!((site.read("shell.txt"), site.read("test.txt")), ("shell\n".into(), "tested\n".into()));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn a_template_without_its_engine_is_a_refusal_with_its_remedy() {
    let site = site("sandbox:\n  templates:\n    default:\n      runtime: docker\n", &[("a.txt", "old\n")]);
    let brain = site.script("call shell.run command=[\"true\"]\ndone\n");
    let said = crate::common::text(&site.skep(&["act", "try", "--brain", &brain, "--await"]));
    assert!(said.contains("no docker answers on this host") && said.contains("apt-get install docker.io"), "{said}");
    assert_eq!(site.count("call.finished"), 0);
}

#[test]
fn a_tool_for_containers_runs_in_one() {
    let site = site("runtime: podman\n", &[("a.txt", "old\n")]);
    let folder = site.home().join("tools/boxed");
    std::fs::create_dir_all(&folder).unwrap();
    let tool = "name: boxed\nversion: 1.0.0\ndescription: d\nrunner: container\ncommand: [sh, -c, 'test -e /.skep && echo 7']\n\
                input_schema: {type: object}\noutput_schema: {}\ntimeout_ms: 60000\n";
    std::fs::write(folder.join("tool.yaml"), tool).unwrap();
    site.ok(&["init"]);
    let rule = "\n  - name: own-tools\n    match: { syscall: boxed }\n    action: allow\n    reason: it is ours\n";
    let policy = site.read(".skep/policy.yaml");
    site.write(".skep/policy.yaml", &format!("{policy}{rule}"));
    site.trust();
    assert_eq!(site.json(&["call", "boxed"])["output"], 7);
}
