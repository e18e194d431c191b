//! The rules on their stage: QuickJS, used in the child only.
//!
//! **Invariant.** A stage is used for one call and then torn down with its whole runtime, so nothing that a rule leaves behind is
//! there for the next call. The prelude has run before any rule, and what it leaves is frozen. Queued promise jobs are never
//! run: there is no dynamic import and no async rule. Code is always compiled from source; bytecode is never read.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs::context::intrinsic;
use rquickjs::convert::List;
use rquickjs::{Array, Context, Ctx, Error, Function, Module, Object, Persistent, Runtime, Value};

use crate::fault::RuleFlaw;
use crate::frame::{RuleAnswer, Says};
use crate::limits::{ENGINE_BYTES, EVALUATION, FILES, RULES, STACK_BYTES};

mod files;
mod strip;
mod tools;

use files::{Files, Loading};
use tools::{ScriptTools, Watch};

/// The module that imports all others. No file has this name.
const ENTRY: &str = "<rules>";

/// No dates, no weak references, no shared memory: what is left gives the same answer every time.
type Parts = (
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::Promise,
);

/// Rule files as JavaScript, ready for any number of stages.
pub(crate) struct RuleProgram {
    files: Rc<Files>,
    entry: String,
}

impl RuleProgram {
    pub(crate) fn strip(texts: &[(String, String)]) -> Result<RuleProgram, RuleFlaw> {
        if texts.len() > FILES {
            return Err(RuleFlaw::new(ENTRY, None, format!("there are {} files, and {FILES} is the most", texts.len())));
        }
        let mut files = Vec::new();
        for (name, text) in texts {
            if name.is_empty() || name == ENTRY || name.contains(|sign: char| sign.is_control() || sign == '"') {
                return Err(RuleFlaw::new(name, None, "a file of rules cannot have this name"));
            }
            if files.iter().any(|(known, _)| known == name) {
                return Err(RuleFlaw::new(name, None, "the file is given twice"));
            }
            files.push((name.clone(), strip::strip(name, text)?));
        }
        let entry =
            files.iter().enumerate().map(|(number, (name, _))| format!("export * as f{number} from \"{}\";\n", name.replace('\\', "\\\\")));
        Ok(RuleProgram { entry: entry.collect(), files: Rc::new(Files(files)) })
    }

    /// A fresh stage with all rules on it.
    pub(crate) fn stage(&self) -> Result<RuleStage, RuleFlaw> {
        let failed = |error: Error| RuleFlaw::new(ENTRY, None, format!("the engine did not start: {error}"));
        let runtime = Runtime::new().map_err(failed)?;
        runtime.set_memory_limit(ENGINE_BYTES);
        runtime.set_max_stack_size(STACK_BYTES);
        let watch = Watch::start();
        let seen = watch.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || seen.over())));
        let loading = Rc::new(RefCell::new(Loading::default()));
        let (resolver, loader) = files::among(&self.files, &loading);
        runtime.set_loader(resolver, loader);
        let context = Context::custom::<Parts>(&runtime).map_err(failed)?;
        let (tools, rules) = context.with(|ctx| {
            let made = ScriptTools::prepare(&ctx).map_err(failed)?;
            let tools = ScriptTools::of(&made).map_err(failed)?;
            let rules = self.load(&ctx, &tools, &watch, &loading)?;
            Ok((Persistent::save(&ctx, made), rules))
        })?;
        Ok(RuleStage { rules, tools, context, watch, files: Rc::clone(&self.files) })
    }

    fn load<'js>(
        &self,
        ctx: &Ctx<'js>,
        tools: &ScriptTools<'js>,
        watch: &Watch,
        loading: &RefCell<Loading>,
    ) -> Result<Vec<Rule>, RuleFlaw> {
        let flaw = |error: Error| {
            if watch.over() {
                let what = format!("the rules took more than {} ms to load", EVALUATION.as_millis());
                return RuleFlaw::new(loading.borrow().last.clone().unwrap_or_else(|| ENTRY.to_owned()), None, what);
            }
            if let Some((base, name)) = &loading.borrow().missing {
                return RuleFlaw::new(base, self.files.find_quoted(base, name), format!("`{name}` is not among the rule files"));
            }
            let (message, stack) = tools.tell(ctx, error);
            match self.files.place(&stack) {
                Some((file, at)) => RuleFlaw::new(file, Some(at), message),
                None => RuleFlaw::new(loading.borrow().last.clone().unwrap_or_else(|| ENTRY.to_owned()), None, message),
            }
        };
        let declared = Module::declare(ctx.clone(), ENTRY, self.entry.as_str()).map_err(flaw)?;
        let (module, done) = declared.eval().map_err(flaw)?;
        match done.result::<Value<'_>>() {
            Some(result) => result.map(drop).map_err(flaw)?,
            None => {
                let file = self.files.0.iter().find(|(_, code)| code.contains("await")).map_or(ENTRY, |(name, _)| name);
                return Err(RuleFlaw::new(file, self.files.find(file, "await"), "a file of rules cannot wait for anything as it loads"));
            }
        }
        let all = module.namespace().map_err(flaw)?;
        let mut rules: Vec<Rule> = Vec::new();
        for (number, (file, _)) in self.files.0.iter().enumerate() {
            let here = |what: String| RuleFlaw::new(file, None, what);
            let exports: Object<'_> = all.get(format!("f{number}")).map_err(flaw)?;
            let collected = tools.collect.call::<_, List<(bool, Vec<Value<'_>>)>>((exports,));
            let List((any, found)) = collected.map_err(|error| here(tools.tell(ctx, error).0))?;
            if !any && !loading.borrow().imported.contains(file) {
                return Err(here("it exports no rule, and no other file uses it".to_owned()));
            }
            for pair in found.chunks_exact(2) {
                let name = pair[0].get::<String>().map_err(flaw)?;
                let judge = pair[1].get::<Function<'_>>().map_err(flaw)?;
                if rules.iter().any(|rule| rule.name == name) {
                    return Err(here(format!("there is more than one rule `{name}`")));
                }
                rules.push(Rule { name, judge: Persistent::save(ctx, judge) });
            }
        }
        let silent: String = tools.silent.call(()).map_err(flaw)?;
        if !silent.is_empty() {
            let place = self.files.0.iter().find_map(|(file, _)| Some((file, self.files.find_quoted(file, &silent)?)));
            let (file, at) = place.map_or((ENTRY, None), |(file, at)| (file, Some(at)));
            return Err(RuleFlaw::new(file, at, format!("no file exports rule `{silent}`, so it would never speak")));
        }
        if rules.len() > RULES {
            return Err(RuleFlaw::new(ENTRY, None, format!("there are {} rules, and {RULES} is the most", rules.len())));
        }
        Ok(rules)
    }
}

/// Where the rules give their opinions about one call.
pub(crate) struct RuleStage {
    // Fields are dropped from top to bottom, and the engine wants its values back before it ends.
    rules: Vec<Rule>,
    tools: Persistent<Array<'static>>,
    context: Context,
    watch: Watch,
    files: Rc<Files>,
}

struct Rule {
    name: String,
    judge: Persistent<Function<'static>>,
}

impl RuleStage {
    pub(crate) fn rules(&self) -> Vec<String> {
        self.rules.iter().map(|rule| rule.name.clone()).collect()
    }

    /// One answer for each rule. Uses the stage up.
    pub(crate) fn judge(self, call: &str) -> Vec<RuleAnswer> {
        self.watch.restart();
        let RuleStage { rules, tools, context, watch, files } = self;
        context.with(|ctx| {
            let lost = |why: &str| rules.iter().map(|_| RuleAnswer::Lost { why: why.to_owned() }).collect();
            let Ok(tools) = tools.restore(&ctx).and_then(|made| ScriptTools::of(&made)) else { return lost("the engine lost its tools") };
            let call = match ctx.json_parse(call).and_then(|call| tools.still.call::<_, Value<'_>>((call,))) {
                Ok(call) => call,
                Err(error) => return lost(&format!("the call could not be shown to it: {}", tools.tell(&ctx, error).0)),
            };
            let threw = |error: Error| {
                let (message, stack) = tools.tell(&ctx, error);
                match files.place(&stack) {
                    Some((file, (line, column))) => format!("it threw at {file}:{line}:{column}: {message}"),
                    None => format!("it threw: {message}"),
                }
            };
            let ask = |judge: Persistent<Function<'static>>| {
                let said: Value<'_> = judge.restore(&ctx).and_then(|judge| judge.call((call.clone(),))).map_err(threw)?;
                tools.read.call::<_, List<(String, String, String)>>((said,)).map_err(|error| tools.tell(&ctx, error).0)
            };
            let mut answers = Vec::with_capacity(rules.len());
            for rule in rules {
                if watch.over() {
                    answers.push(RuleAnswer::Lost { why: "no time was left for it".to_owned() });
                    continue;
                }
                let said = ask(rule.judge);
                answers.push(match said {
                    // Also when it has an answer: the engine looks at the watch only now and then.
                    _ if watch.over() => RuleAnswer::Lost { why: format!("it took more than {} ms", EVALUATION.as_millis()) },
                    Ok(List((says, reason, hint))) => answer(&says, reason, hint),
                    Err(why) => RuleAnswer::Lost { why },
                });
            }
            answers
        })
    }
}

fn answer(says: &str, reason: String, hint: String) -> RuleAnswer {
    let says = match says {
        "allow" => Says::Allow,
        "deny" => Says::Deny,
        "review" => Says::Review,
        "pass" => Says::Pass,
        _ => return RuleAnswer::Lost { why: "it answered with an unknown word".to_owned() },
    };
    RuleAnswer::Said { says, reason, hint: Some(hint).filter(|hint| !hint.is_empty()) }
}
