//! A tool of another crate, which this one knows nothing of: the trait is all that the registry needs to check it, run it and hold it to
//! its manifest.

use serde_json::{Value, json};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tool::{Access, Alone, Context, Manifest, Output, Place, Reach, Registry, RunMode, Target, Tool, ToolFault, ToolFuture, ToolStop};
use world::Code;

/// Counts the words of a file, as a server might do it that is not always there.
#[derive(Debug)]
struct WordCounter {
    manifest: Manifest,
    /// Calls that meet a broken connection before one gets through.
    faults_left: AtomicU32,
}

impl WordCounter {
    fn new(name: &str, faults: u32) -> WordCounter {
        let text = format!(
            "name: {name}\nversion: 1.0.0\ndescription: counts words\nrunner: internal\ntimeout_ms: 5000\nread_only: true\nroom: kernel\n\
             input_schema: {{type: object, properties: {{file: {{type: string}}}}, required: [file], additionalProperties: false}}\n\
             output_schema: {{type: object, properties: {{words: {{type: integer, maximum: 3}}}}, required: [words]}}\n\
             supports: {{mock: true, dry_run: true}}\nmock_responses: [{{words: 1}}]\n"
        );
        let manifest = Manifest::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
        WordCounter { manifest, faults_left: AtomicU32::new(faults) }
    }

    fn count(&self, path: &Place) -> Result<Output, ToolStop> {
        let was_broken = self.faults_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if was_broken {
            return Err(ToolFault::io("reach", "the counter", io::ErrorKind::Interrupted).into());
        }
        let mut text = String::new();
        path.file()?.0.read_to_string(&mut text).map_err(|error| ToolFault::io("read", path.real.as_str(), error))?;
        Ok(Output::good(json!({ "words": text.split_whitespace().count() })))
    }
}

impl Tool for WordCounter {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn targets(&self, input: &Value) -> Vec<Target> {
        vec![Target { path: input["file"].as_str().unwrap_or_default().to_owned(), access: Access::Read }]
    }

    fn dry_run(&self, _input: &Value, paths: &[Place], _context: &Context<'_>) -> Result<String, ToolStop> {
        Ok(format!("count the words of {} file", paths.len()))
    }

    fn execute<'a>(&'a self, _input: &'a Value, paths: Vec<Place>, _context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move { self.count(&paths[0]) })
    }
}

/// Calls it as the door does, on a project with two files.
async fn call(registry: &Registry, input: Value, mode: RunMode) -> Result<Output, ToolStop> {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    for (name, text) in [("three", "one two three"), ("four", "one two three four")] {
        std::fs::write(folder.path().join(name), text).unwrap_or_else(|error| panic!("{error}"));
    }
    let root = std::fs::File::open(folder.path()).unwrap_or_else(|error| panic!("{error}"));
    let tool = registry.find("word.count")?;
    tool.check(&input)?;
    let targets = tool.targets(&input);
    let paths = targets.iter().map(|target| Place::open(root.as_fd(), folder.path(), target)).collect::<Result<_, _>>()?;
    let context = Context {
        root: root.as_fd(),
        project: folder.path(),
        room: None,
        test_command: None,
        output_max: 1000,
        visible: &|_: &str| true,
        mode,
        reach: &Reach::default(),
        leave: &Alone,
        environment: &[],
        terms: Default::default(),
        secrets: &[],
    };
    tool.run(&input, paths, &context).await
}

fn registry(faults: u32) -> Registry {
    let mut registry = Registry::builtin();
    registry.add(Arc::new(WordCounter::new("word.count", faults))).unwrap_or_else(|error| panic!("{error}"));
    registry
}

#[tokio::test]
async fn a_tool_of_another_crate_is_a_tool_like_any_other() {
    let registry = registry(0);
    let tool = registry.find("word.count").unwrap();
    let input = json!({ "file": "./three" });
    assert_eq!(tool.touches_by_name(&input), [Target { path: "three".into(), access: Access::Read }]);
    assert!(tool.reads_only(&input) && !tool.is_adapted() && !tool.needs_container());
    assert_eq!((tool.command(&input), tool.size(&input, &[]), tool.aim(&input)), (None, None, Ok(None)));

    assert_eq!(call(&registry, input.clone(), RunMode::Live).await.unwrap().value, json!({ "words": 3 }));
    assert_eq!(
        call(&registry, input.clone(), RunMode::DryRun).await.unwrap().value,
        json!({ "dry_run": true, "would": "count the words of 1 file" })
    );
    assert_eq!(call(&registry, input, RunMode::Mock).await.unwrap().value, json!({ "words": 1 }));
}

#[tokio::test]
async fn the_registry_checks_and_retries_what_it_knows_nothing_of() {
    let registry = registry(1);
    let output = call(&registry, json!({ "file": "three" }), RunMode::Live).await.unwrap();
    assert_eq!((output.value, output.retries), (json!({ "words": 3 }), 1), "a passing fault is met with one more try");

    let Err(ToolStop::Refused(refusal)) = call(&registry, json!({ "path": "three" }), RunMode::Live).await else { panic!() };
    assert_eq!((refusal.code, &*refusal.reason), (Code::BadInput, "`word.count`: the input lacks `file`"));
    let Err(ToolStop::Failed(fault)) = call(&registry, json!({ "file": "four" }), RunMode::Live).await else { panic!() };
    assert_eq!(fault.to_string(), "`word.count` gave a result that does not fit its manifest: `words` does not fit: it must be at most 3");
}

#[test]
fn a_name_that_is_taken_or_no_name_is_not_added() {
    let mut registry = registry(0);
    let mut what = |name: &str| registry.add(Arc::new(WordCounter::new(name, 0))).unwrap_err().what;
    assert_eq!(what("word.count"), "there is a tool `word.count` already");
    assert_eq!(what("fs_read"), "there is a tool `fs.read` already, and to a model that is the same name");
    assert_eq!(what("No Name"), "`No Name` is not a tool's name: lower-case words with `-` or `_`, at most one dot");
    registry.add(Arc::new(WordCounter::new("word.tally", 0))).unwrap();
    assert_eq!(registry.find("word.tally").unwrap().manifest().description, "counts words");
}
