//! A tree of values as a plan, field by field, with a place for everything that does not fit.

use super::{ARTIFACT_KINDS, FailurePolicy, Plan, PlanArtifact, PlanStep, SCHEMA_VERSION, ToolRef, is_step_id, is_tool_name, misfit};
use super::{STEP_RETRIES_MAX, STEP_TIMEOUT_MS_MAX, STEP_TIMEOUT_MS_MIN};
use crate::criteria::Criterion;
use crate::field::OutputRef;
use crate::findings::{Findings, is_joiner, is_unseen, shown};
use crate::version::VersionRange;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use world::PlanFinding;
use world::limits::{PLAN_LIST_MAX, PLAN_STEPS_MAX, PLAN_TEXT_MAX, PLAN_TITLE_MAX};

const PLAN_KEYS: &[&str] = &["schema_version", "plan_id", "goal", "assumptions", "steps", "artifacts", "created_at"];
const STEP_KEYS: &[&str] = &[
    "step_id",
    "title",
    "description",
    "tool_ref",
    "input",
    "input_from",
    "depends_on",
    "success_criteria",
    "failure_policy",
    "timeout_ms",
    "max_retries",
];
const TOOL_KEYS: &[&str] = &["name", "version_range"];
const ARTIFACT_KEYS: &[&str] = &["name", "type", "description"];
/// Characters of a plan's own id.
const PLAN_ID_MAX: usize = 128;

pub(super) fn plan(value: &Value, may_be_empty: bool) -> Result<Plan, Vec<PlanFinding>> {
    let mut found = Findings::default();
    let Some(plan) = Fields::of(value, "", PLAN_KEYS, &mut found) else { return Err(found.into_vec()) };
    let schema_version = match plan.get("schema_version") {
        // YAML takes 0.1 for a number.
        Some(Value::Number(_)) => {
            found.add(misfit("schema_version", format!("it must be text, in quotes: \"{SCHEMA_VERSION}\"")));
            None
        }
        _ => plan.text("schema_version", Length::title(), &mut found),
    };
    if let Some(version) = &schema_version
        && version != SCHEMA_VERSION
    {
        found.add(misfit("schema_version", format!("it is `{}`; the one that can be read is \"{SCHEMA_VERSION}\"", shown(version))));
    }
    let plan_id = plan.optional_text("plan_id", Length { max: PLAN_ID_MAX, is_line: true, may_be_empty: false }, &mut found);
    let goal = plan.text("goal", Length::prose(), &mut found);
    let assumptions = texts(&plan, "assumptions", PLAN_LIST_MAX, &mut found);
    let artifacts = artifacts(&plan, &mut found);
    let created_at = plan.optional_text("created_at", Length::title(), &mut found);
    if let Some(at) = &created_at
        && !is_date_time(at)
    {
        found.add(misfit("created_at", "it must be a date with its time, such as 2026-11-15T18:39:11Z"));
    }
    let steps = steps(&plan, may_be_empty, &mut found);
    match (schema_version, goal) {
        (Some(schema_version), Some(goal)) if found.is_empty() => {
            Ok(Plan { schema_version, plan_id, goal, assumptions, steps, artifacts, created_at })
        }
        _ => Err(found.into_vec()),
    }
}

fn steps(plan: &Fields<'_>, may_be_empty: bool, found: &mut Findings) -> Vec<PlanStep> {
    let Some(items) = plan.required("steps", found).and_then(|value| list(value, "steps", PLAN_STEPS_MAX, found)) else {
        return Vec::new();
    };
    if items.is_empty() && !may_be_empty {
        found.add(misfit("steps", "a plan has at least one step; only in an agentic session an empty one says that the task is done"));
    }
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut steps = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(step) = step(item, &format!("steps[{index}]"), found) else { continue };
        if let Some(other) = first.get(&step.step_id) {
            found.add(misfit(format!("steps[{index}].step_id"), format!("`{}` is the id of steps[{other}] already", step.step_id)));
        } else {
            first.insert(step.step_id.clone(), index);
        }
        steps.push(step);
    }
    steps
}

/// A step; `None` where one of its fields does not fit, which is among the findings then.
fn step(value: &Value, at: &str, found: &mut Findings) -> Option<PlanStep> {
    let step = Fields::of(value, at, STEP_KEYS, found)?;
    let step_id = step.required("step_id", found).and_then(|id| match id {
        Value::String(id) if is_step_id(id) => Some(id.clone()),
        _ => {
            found.add(misfit(step.at("step_id"), "a step's id is 1 to 64 letters, digits, `-` and `_`"));
            None
        }
    });
    let title = step.optional_text("title", Length::title(), found);
    let description = step.optional_text("description", Length::empty_prose(), found).unwrap_or_default();
    let tool_ref = step.required("tool_ref", found).and_then(|value| tool_ref(value, &step.at("tool_ref"), found));
    let input = match step.get("input") {
        None => Map::new(),
        Some(Value::Object(input)) => input.clone(),
        Some(_) => {
            found.add(misfit(step.at("input"), "it must be a map of fields"));
            Map::new()
        }
    };
    let input_from = input_from(&step, &input, found);
    let depends_on = depends_on(&step, found);
    let success_criteria = criteria(&step, found);
    let failure_policy = failure_policy(&step, found);
    let timeout_ms = step.whole("timeout_ms", STEP_TIMEOUT_MS_MIN, STEP_TIMEOUT_MS_MAX, found);
    let max_retries = step.whole("max_retries", 0, STEP_RETRIES_MAX.into(), found);
    let (step_id, tool_ref) = (step_id?, tool_ref?);
    Some(PlanStep {
        title: title.unwrap_or_else(|| step_id.clone()),
        step_id,
        description,
        tool_ref,
        input,
        input_from,
        depends_on,
        success_criteria,
        failure_policy,
        timeout_ms,
        max_retries: max_retries.and_then(|retries| u32::try_from(retries).ok()).unwrap_or(0),
    })
}

fn tool_ref(value: &Value, at: &str, found: &mut Findings) -> Option<ToolRef> {
    let tool = Fields::of(value, at, TOOL_KEYS, found)?;
    let name = tool.required("name", found).and_then(|name| match name {
        Value::String(name) if is_tool_name(name) => Some(name.clone()),
        _ => {
            found.add(misfit(tool.at("name"), "a tool's name is lower-case words with `-` or `_`, and at most one dot"));
            None
        }
    });
    let range = match tool.optional_text("version_range", Length::title(), found).map(|text| VersionRange::parse(&text)) {
        Some(Ok(range)) => Some(range),
        Some(Err(why)) => {
            found.add(misfit(tool.at("version_range"), why));
            None
        }
        None => None,
    };
    Some(ToolRef { name: name?, version_range: range })
}

fn input_from(step: &Fields<'_>, input: &Map<String, Value>, found: &mut Findings) -> BTreeMap<String, OutputRef> {
    let at = step.at("input_from");
    let mut fields = BTreeMap::new();
    let given = match step.get("input_from") {
        None => return fields,
        Some(Value::Object(given)) => given,
        Some(_) => {
            found.add(misfit(at, "it must be a map of the input's fields to `<step_id>.<field>`"));
            return fields;
        }
    };
    for (field, from) in given {
        let at = format!("{at}.{}", shown(field));
        if field.is_empty() || field.chars().any(is_unseen) {
            found.add(misfit(at, "a field of an input is a word without control characters"));
            continue;
        }
        if input.contains_key(field) {
            found.add(misfit(at, "`input` has this field too; one of the two must go"));
            continue;
        }
        match from
            .as_str()
            .ok_or_else(|| "it names a step and a field of its output: `<step_id>.<field>`".to_owned())
            .and_then(OutputRef::parse)
        {
            Ok(from) => {
                fields.insert(field.clone(), from);
            }
            Err(why) => found.add(misfit(at, why)),
        }
    }
    fields
}

fn depends_on(step: &Fields<'_>, found: &mut Findings) -> Vec<String> {
    let at = step.at("depends_on");
    let Some(items) = step.get("depends_on").and_then(|value| list(value, &at, PLAN_STEPS_MAX, found)) else { return Vec::new() };
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match item.as_str() {
            Some(name) if is_step_id(name) && seen.insert(name) => names.push(name.to_owned()),
            Some(name) if is_step_id(name) => found.add(misfit(format!("{at}[{index}]"), format!("`{name}` stands here twice"))),
            _ => found.add(misfit(format!("{at}[{index}]"), "it must be the id of a step")),
        }
    }
    names
}

fn criteria(step: &Fields<'_>, found: &mut Findings) -> Vec<Criterion> {
    let at = step.at("success_criteria");
    let Some(items) = step.get("success_criteria").and_then(|value| list(value, &at, PLAN_LIST_MAX, found)) else { return Vec::new() };
    let mut criteria = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match item.as_str().ok_or_else(|| "it must be text".to_owned()).and_then(Criterion::parse) {
            Ok(criterion) => criteria.push(criterion),
            Err(why) => found.add(misfit(format!("{at}[{index}]"), why)),
        }
    }
    criteria
}

fn failure_policy(step: &Fields<'_>, found: &mut Findings) -> FailurePolicy {
    let Some(value) = step.get("failure_policy") else { return FailurePolicy::default() };
    let known = FailurePolicy::ALL.into_iter().find(|policy| value.as_str() == Some(policy.as_str()));
    known.unwrap_or_else(|| {
        found.add(misfit(step.at("failure_policy"), "it must be `abort`, `replan` or `continue`"));
        FailurePolicy::default()
    })
}

fn texts(plan: &Fields<'_>, key: &str, max: usize, found: &mut Findings) -> Vec<String> {
    let Some(items) = plan.get(key).and_then(|value| list(value, &plan.at(key), max, found)) else { return Vec::new() };
    let text = |(index, item)| text_of(item, &format!("{}[{index}]", plan.at(key)), Length::prose(), found);
    items.iter().enumerate().filter_map(text).collect()
}

fn artifacts(plan: &Fields<'_>, found: &mut Findings) -> Vec<PlanArtifact> {
    let Some(items) = plan.get("artifacts").and_then(|value| list(value, "artifacts", PLAN_LIST_MAX, found)) else { return Vec::new() };
    let mut artifacts = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(fields) = Fields::of(item, &format!("artifacts[{index}]"), ARTIFACT_KEYS, found) else { continue };
        let name = fields.text("name", Length::title(), found);
        let kind = fields.text("type", Length::title(), found);
        let description = fields.optional_text("description", Length::empty_prose(), found).unwrap_or_default();
        match (name, kind) {
            (Some(name), Some(kind)) if ARTIFACT_KINDS.contains(&kind.as_str()) => artifacts.push(PlanArtifact { name, kind, description }),
            (_, Some(kind)) if ARTIFACT_KINDS.contains(&kind.as_str()) => {}
            (_, Some(_)) => found.add(misfit(fields.at("type"), format!("it must be one of {}", ARTIFACT_KINDS.join(", ")))),
            _ => {}
        }
    }
    artifacts
}

fn list<'v>(value: &'v Value, at: &str, max: usize, found: &mut Findings) -> Option<&'v [Value]> {
    match value {
        Value::Array(items) if items.len() <= max => Some(items),
        Value::Array(items) => {
            found.add(misfit(at, format!("it has {} entries; it may have {max} at most", items.len())));
            None
        }
        _ => {
            found.add(misfit(at, "it must be a list"));
            None
        }
    }
}

/// How long a text may be, and what it may hold.
#[derive(Clone, Copy)]
struct Length {
    /// In characters.
    max: usize,
    /// It has no line breaks.
    is_line: bool,
    may_be_empty: bool,
}

impl Length {
    fn title() -> Length {
        Length { max: PLAN_TITLE_MAX, is_line: true, may_be_empty: false }
    }

    fn prose() -> Length {
        Length { max: PLAN_TEXT_MAX, is_line: false, may_be_empty: false }
    }

    fn empty_prose() -> Length {
        Length { may_be_empty: true, ..Length::prose() }
    }
}

fn text_of(value: &Value, at: &str, length: Length, found: &mut Findings) -> Option<String> {
    let Value::String(text) = value else {
        found.add(misfit(at, "it must be text"));
        return None;
    };
    let is_forbidden = |letter: char| match length.is_line {
        true => is_unseen(letter) || is_joiner(letter),
        false => is_unseen(letter) && !matches!(letter, '\n' | '\t' | '\r'),
    };
    let flaw = if text.trim().is_empty() && !length.may_be_empty {
        "it is empty".to_owned()
    } else if text.len() > length.max && text.chars().count() > length.max {
        format!("it may have {} characters at most", length.max)
    } else if let Some((place, letter)) = text.chars().enumerate().find(|(_, letter)| is_forbidden(*letter)) {
        let what = match letter {
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => "breaks the line",
            letter if letter.is_control() => "controls a terminal",
            _ => "cannot be seen, or changes the direction of text",
        };
        format!("its character {} is U+{:04X}, which {what}; leave it out", place + 1, u32::from(letter))
    } else {
        return Some(text.clone());
    };
    found.add(misfit(at, flaw));
    None
}

/// A map with known keys, and its place.
struct Fields<'v> {
    fields: &'v Map<String, Value>,
    at: String,
}

impl<'v> Fields<'v> {
    fn of(value: &'v Value, at: &str, known: &[&str], found: &mut Findings) -> Option<Fields<'v>> {
        let Value::Object(fields) = value else {
            let whole = if at.is_empty() { "a plan is a map of fields" } else { "it must be a map of fields" };
            found.add(misfit(at, whole));
            return None;
        };
        let this = Fields { fields, at: at.to_owned() };
        for key in fields.keys().filter(|key| !known.contains(&key.as_str())) {
            found.add(misfit(this.at(&shown(key)), format!("there is no such field; there are {}", known.join(", "))));
        }
        Some(this)
    }

    fn at(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }

    fn get(&self, key: &str) -> Option<&'v Value> {
        self.fields.get(key)
    }

    fn required(&self, key: &str, found: &mut Findings) -> Option<&'v Value> {
        let value = self.get(key);
        if value.is_none() {
            found.add(misfit(self.at(key), "it is missing"));
        }
        value
    }

    fn text(&self, key: &str, length: Length, found: &mut Findings) -> Option<String> {
        text_of(self.required(key, found)?, &self.at(key), length, found)
    }

    fn optional_text(&self, key: &str, length: Length, found: &mut Findings) -> Option<String> {
        text_of(self.get(key)?, &self.at(key), length, found)
    }

    fn whole(&self, key: &str, min: u64, max: u64, found: &mut Findings) -> Option<u64> {
        let value = self.get(key)?;
        // JSON has one kind of number: 1000.0 is a whole one.
        let whole = value
            .as_u64()
            .or_else(|| value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..1e15).contains(number)).map(|number| number as u64));
        let fits = whole.filter(|number| (min..=max).contains(number));
        if fits.is_none() {
            found.add(misfit(self.at(key), format!("it must be a whole number from {min} to {max}")));
        }
        fits
    }
}

/// `2026-11-15T18:39:11.819Z`, or with an offset.
fn is_date_time(text: &str) -> bool {
    let number = |range: std::ops::Range<usize>| {
        text.get(range).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit())).and_then(|part| part.parse::<u32>().ok())
    };
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    let bytes = text.as_bytes();
    let is_marked = marks.iter().all(|(at, mark)| bytes.get(*at) == Some(mark)) && matches!(bytes.get(10), Some(b'T' | b't'));
    let within = |range, min, max| number(range).is_some_and(|number| (min..=max).contains(&number));
    let is_dated = within(0..4, 0, 9999) && within(5..7, 1, 12) && within(8..10, 1, 31) && within(11..13, 0, 23) && within(14..16, 0, 59);
    if !is_marked || !is_dated || !within(17..19, 0, 60) {
        return false;
    }
    let rest = text.get(19..).unwrap_or_default();
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|digit: char| digit.is_ascii_digit()),
        None => rest,
    };
    let has_fraction = rest.len() == zone.len() || rest.len() - zone.len() > 1;
    let is_offset = |zone: &str| {
        let (hours, minutes) = zone.split_once(':').unwrap_or_default();
        let is_pair = |part: &str, max: u32| part.len() == 2 && part.parse::<u32>().is_ok_and(|number| number <= max);
        is_pair(hours, 23) && is_pair(minutes, 59)
    };
    has_fraction && (matches!(zone, "Z" | "z") || zone.strip_prefix(['+', '-']).is_some_and(is_offset))
}
