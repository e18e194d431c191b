//! The end of a call: redact, cap, keep what is large as a blob, record.

use super::egress::Way;
use super::facts::Facts;
use super::gate::Permit;
use super::judge::Walk;
use super::part::Parts;
use super::{End, Outcome, Request};
use crate::Kernel;
use crate::job::JobProcess;
use crate::work::Part;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tool::{Context, Output, Pass, RegisteredTool, ToolStop};
use world::event::{CallFinished, CallObserved, CallRefused, RecordsDropped};
use world::{CallId, Code, Constraints, Event, Observe, Refusal, ReviewId, limits};
use world::{Fault, FaultKind, Stop};

/// A request as the journal may hold it: secrets taken out, and a keyed hash of what was really said.
pub(super) struct Sealed {
    pub input: Value,
    pub digest: String,
    /// The exact input, when the record differs from it.
    original: Option<Vec<u8>>,
}

pub(super) fn sealed(kernel: &Kernel, request: &Request) -> Sealed {
    let original = request.input.to_string().into_bytes();
    let digest = kernel.ledger.journal().vault().digest(&original);
    let mut input = request.input.clone();
    kernel.redactor.value(&mut input);
    shorten(&mut input);
    let original = (input != request.input).then_some(original);
    Sealed { input, digest, original }
}

impl Sealed {
    /// Keeps the original until the call settles, so that nobody ever runs the redacted one.
    pub fn keep(&self, kernel: &Kernel, call: CallId) -> Result<(), Fault> {
        match &self.original {
            Some(bytes) => kernel.ledger.confide(call, bytes),
            None => Ok(()),
        }
    }

    /// The digest of the exact input, where the record is not that.
    pub fn whole(&self) -> Option<String> {
        self.original.as_ref().map(|_| self.digest.clone())
    }

    /// Keeps the original for whoever is asked about it, until there is an answer.
    pub fn keep_for(&self, kernel: &Kernel, review: ReviewId) -> Result<(), Fault> {
        match &self.original {
            Some(bytes) => kernel.ledger.confide(review, bytes),
            None => Ok(()),
        }
    }
}

/// Bytes of a long text that its record holds.
pub(crate) const KEPT_CHARS: usize = 2_000;

/// A long value is named in a record, not repeated there; the digest covers it whole.
pub(super) fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > KEPT_CHARS => {
            let cut = text.floor_char_boundary(KEPT_CHARS);
            *text = format!("{}… [{} bytes in all]", &text[..cut], text.len());
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// The tool a request names, if the input fits it.
pub(super) fn found<'a>(kernel: &'a Kernel, request: &Request) -> Result<&'a RegisteredTool, Refusal> {
    let bytes = request.input.to_string().len();
    if bytes > limits::INPUT_BYTES_MAX {
        return Err(Refusal::new(Code::TooLarge, format!("the input has {bytes} bytes; {} are allowed", limits::INPUT_BYTES_MAX))
            .hint("write large content in several calls"));
    }
    let tool = kernel.tools.find(&request.tool)?;
    tool.check(&request.input)?;
    // Where it can never go, nobody is asked about.
    if let Some(aim) = tool.aim(&request.input)? {
        kernel.tuning.reach.check(&aim)?;
    }
    Ok(tool)
}

/// Records a refusal that needed no policy: no such tool, bad input, no such file.
pub(super) async fn refuse(kernel: &Kernel, request: &Request, refusal: Refusal, start: Instant) -> Result<Outcome, Fault> {
    let sealed = sealed(kernel, request);
    let (pid, task, tool) = (request.pid, request.task, request.tool.clone());
    let no = refusal.clone();
    let pending = kernel.ledger.commit(|world, _| {
        let call = world.next_call();
        let Sealed { input, digest, .. } = sealed;
        let event = CallRefused {
            pid,
            task,
            call,
            tool,
            input,
            digest,
            code: no.code,
            reason: no.reason,
            hint: no.hint,
            detail: no.detail,
            rules: Vec::new(),
            paths: Vec::new(),
            size: None,
            of: request.of,
        };
        (vec![event.into()], call)
    })?;
    let call = pending.durable().await?;
    Ok(Outcome { call: Some(call), rules: Vec::new(), end: End::Refused(refusal), gate: start.elapsed(), run: Duration::ZERO })
}

impl Permit {
    /// Runs the tool. The only place where one runs.
    pub async fn run(
        &self,
        kernel: &Kernel,
        tool: &RegisteredTool,
        pass: Pass<'_>,
        request: &Request,
        mut facts: Facts,
    ) -> (Result<Output, Stop>, Duration) {
        let start = Instant::now();
        let places = std::mem::take(&mut facts.places);
        let Facts { root, call, project, .. } = &facts;
        let trusted = &call.trusted;
        let room = match root {
            super::facts::Root::OpenWorkspace(desk) => Some(&desk.room),
            super::facts::Root::Project(_) | super::facts::Root::None => None,
        };
        let Some(fd) = root.fd() else {
            let fault = Fault::new(FaultKind::Bug, format!("`{}` was to run without a root", request.tool), kernel.home.path.display());
            return (Err(Stop::Failed(fault)), start.elapsed());
        };
        let job = match kernel.begin_job(request).await {
            Ok(job) => job,
            Err(fault) => return (Err(Stop::Failed(fault)), start.elapsed()),
        };
        let pid = job.as_ref().map(JobProcess::pid);
        let hold = kernel.works.begin(Part { task: request.task, call: Some(self.call), job: pid });
        // A walk shows nothing that a call on the path itself would not.
        let walk = Walk::of(kernel, call);
        let same = |path: &str| matches!(root, super::facts::Root::OpenWorkspace(desk) if desk.other_name(path).is_some());
        let hides = |path: &str| facts.sight.as_ref().is_some_and(|sight| sight.masks(path).is_some()) || same(path);
        let visible = |path: &str| !hides(path) && walk.shows(path, self.grant.is_some());
        let template = facts.room.as_ref();
        let way = template.filter(|template| template.network == sandbox::Network::Restricted || template.models).and_then(|template| {
            let kernel = kernel.me.upgrade()?;
            // What the job asks for is asked by the process that stands for it.
            let asker = Request { pid: pid.unwrap_or(request.pid), ..request.clone() };
            Some(Way::open(kernel, &asker, self.call, template.clone()))
        });
        let way = match way.transpose() {
            Ok(way) => way,
            Err(fault) => {
                let closed = self.close(kernel, None, None, job, true).await;
                return (Err(Stop::Failed(closed.err().unwrap_or(fault))), start.elapsed());
            }
        };
        let secrets: Vec<tool::Secret> = kernel.outside.secrets.iter().map(|(_, secret)| secret.clone()).collect();
        let context = Context {
            root: fd,
            project,
            room,
            test_command: trusted.config.test.command.as_deref(),
            output_max: limits::OUTPUT_KEPT_MAX,
            visible: &visible,
            mode: request.run_mode,
            reach: &kernel.tuning.reach,
            leave: &Parts { kernel, request, call: self.call },
            environment: &kernel.environment,
            terms: tool::Terms { template, live: request.live.as_deref(), network: way.as_ref().map(|way| way as &dyn tool::Network) },
            secrets: &secrets,
        };
        let work = async {
            let result = tool.run(&request.input, places, &context).await;
            pass.settle(&result, kernel.tuning.clock.instant());
            result.map_err(|stop| match stop {
                ToolStop::Refused(refusal) => Stop::Refused(refusal),
                ToolStop::Failed(fault) => {
                    let (fix, is_retryable) = (fault.hint().map(str::to_owned), fault.is_passing());
                    Stop::Failed(Fault {
                        fix,
                        is_retryable,
                        ..Fault::new(FaultKind::Room, format!("`{}` could not run", request.tool), fault)
                    })
                }
            })
        };
        let limit = async {
            match self.constraints().and_then(|constraints| constraints.max_duration_ms) {
                None => std::future::pending().await,
                Some(ms) => {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    Refusal::new(Code::Exhausted, format!("it was stopped after the {ms} ms that its grant allows"))
                }
            }
        };
        // Dropping the work ends it: a job is killed, a connection closed, a reader stops at its next look.
        let ended = async {
            match request.task.and_then(|task| kernel.cancelled(task)) {
                // Cancelled after it was admitted and before it could be told.
                Some(refusal) => refusal,
                None => hold.ended().await,
            }
        };
        let output = tokio::select! {
            biased;
            refusal = ended => Err(Stop::Refused(refusal)),
            refusal = limit => Err(Stop::Refused(refusal)),
            output = work => output,
        };
        let closed = self.close(kernel, room, way, job, output.is_err()).await;
        (output.and_then(|output| closed.map(|()| output).map_err(Stop::Failed)), start.elapsed())
    }

    /// Waits until nothing of the call runs any more, and records the end of its job.
    async fn close(
        &self,
        kernel: &Kernel,
        room: Option<&sandbox::Workspace>,
        way: Option<Way>,
        job: Option<JobProcess>,
        killed: bool,
    ) -> Result<(), Fault> {
        if let (Some(room), true) = (room, killed) {
            room.buried().await.map_err(workspace::room_fault)?;
        }
        if let Some(way) = way {
            way.close().await?;
        }
        match job {
            Some(job) => job.end(kernel, killed).await,
            None => Ok(()),
        }
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.grant.as_ref().and_then(|grant| grant.terms.constraints.as_ref())
    }

    /// Takes out of an output what the grant keeps from the caller.
    fn narrow(&self, value: &mut Value) {
        let Some(Constraints { output_redact_fields, output_allow_fields, .. }) = self.constraints() else { return };
        if !output_allow_fields.is_empty() {
            match value.as_object_mut() {
                Some(fields) => fields.retain(|key, _| output_allow_fields.contains(key)),
                // What has no fields has none that may be seen.
                None => *value = Value::Null,
            }
        }
        hide(value, output_redact_fields);
    }

    /// What the grant wants written down besides the call itself: sizes, and for `detailed` what went in and came out.
    fn observed(&self, kernel: &Kernel, request: &Request, whole: &Value, bytes_out: u64, ms: u64) -> Option<Event> {
        let grant = self.grant.as_ref()?;
        let level = grant.terms.observe?;
        let detail = (level == Observe::Detailed).then(|| {
            let mut detail = json!({"input": request.input, "output": whole});
            kernel.redactor.value(&mut detail);
            shorten(&mut detail);
            detail
        });
        let bytes_in = request.input.to_string().len() as u64;
        Some(
            CallObserved { pid: request.pid, task: request.task, call: self.call, grant: grant.id, level, bytes_in, bytes_out, ms, detail }
                .into(),
        )
    }
}

/// Takes the secrets out of an output, also those with escape codes inside: what a reader sees must hold none. Codes that hid one are
/// not kept either.
fn redact(kernel: &Kernel, whole: &mut Value) {
    let mut seen = whole.clone();
    let hidden = tool::visible(&mut seen);
    kernel.redactor.value(whole);
    if hidden {
        kernel.redactor.value(&mut seen);
        let mut plain = whole.clone();
        tool::visible(&mut plain);
        if plain != seen {
            *whole = seen;
        }
    }
}

/// Takes what stands under these names away, at any depth.
fn hide(value: &mut Value, names: &[String]) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, field)| match names.contains(name) {
            true => *field = journal::REDACTED.into(),
            false => hide(field, names),
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, names)),
        _ => {}
    }
}

/// Records what a tool gave, and gives the caller what is fit to be read of it.
pub(super) async fn finish(
    kernel: &Kernel,
    tool: Option<&RegisteredTool>,
    request: &Request,
    permit: &Permit,
    output: (Result<Output, Stop>, Duration),
) -> Result<End, Fault> {
    let (output, took) = output;
    let (ok, mut whole) = match output {
        Ok(output) => (output.ok, output.value),
        Err(Stop::Refused(refusal)) => (false, refusal.told()),
        Err(Stop::Failed(fault)) => {
            let Fault { fix, is_retryable, .. } = &fault;
            (false, json!({"error": "fault", "reason": fault.to_string(), "hint": fix, "is_retryable": is_retryable}))
        }
    };
    redact(kernel, &mut whole);
    permit.narrow(&mut whole);
    let mut value = whole.clone();
    if let (Some(tool), Some(trusted)) = (tool, kernel.trusted(request.zone)?) {
        trusted.sanitizer.clean(tool.manifest(), &mut value);
    }
    let bytes = serde_json::to_vec(&whole).map_err(|error| Fault::new(FaultKind::Bug, "an output cannot be written", error))?;
    let mut inline = value.clone();
    let mut blob = None;
    let mut dropped = None;
    // What a record or a caller does not have whole is kept beside.
    if value != whole || bytes.len() > limits::OUTPUT_INLINE_MAX {
        if fits_its_share(kernel, request, bytes.len() as u64) {
            blob = Some(kernel.ledger.keep(&bytes)?);
        } else {
            dropped = Some(RecordsDropped { pid: request.pid, task: request.task, kind: "blob".into(), count: 1 });
        }
        shorten(&mut inline);
        if inline.to_string().len() > limits::OUTPUT_INLINE_MAX {
            inline = json!({"bytes": bytes.len()});
        }
    }
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let blob_bytes = if blob.is_some() { bytes.len() as u64 } else { 0 };
    let event = CallFinished { pid: request.pid, task: request.task, call: permit.call, ok, output: inline, blob, blob_bytes, ms };
    let mut events = vec![event.into()];
    events.extend(dropped.map(Event::from));
    events.extend(permit.observed(kernel, request, &whole, bytes.len() as u64, ms));
    let pending = kernel.ledger.commit(|world, _| match world.calls.contains_key(&permit.call) {
        true => (events, true),
        // Its task was cancelled, and its end is on record with that.
        false => (Vec::new(), false),
    })?;
    let open = pending.durable().await?;
    kernel.ledger.unconfide(permit.call)?;
    match request.task.filter(|_| !open).and_then(|task| kernel.cancelled(task)) {
        Some(refusal) => Ok(End::Refused(refusal)),
        None => Ok(End::Done { ok, value }),
    }
}

/// Is there room for more of this task's output?
fn fits_its_share(kernel: &Kernel, request: &Request, more: u64) -> bool {
    let held = kernel.ledger.look(|world| request.task.and_then(|task| world.tasks.get(&task)).map_or(0, |task| task.blob_bytes));
    held.saturating_add(more) <= kernel.tuning.task_blob_bytes_max
}

/// A caller's own word about a call it made itself.
pub(super) async fn report(kernel: &Kernel, call: CallId, ok: bool, text: &str) -> Result<(), Fault> {
    let mut output = json!({"claimed": text});
    kernel.redactor.value(&mut output);
    shorten(&mut output);
    let pending = kernel.ledger.commit(|world, _| match world.calls.get(&call) {
        Some(open) => {
            (vec![CallFinished { pid: open.pid, task: open.task, call, ok, output, blob: None, blob_bytes: 0, ms: 0 }.into()], ())
        }
        None => (Vec::new(), ()),
    })?;
    pending.durable().await?;
    kernel.ledger.unconfide(call)
}
