//! What the prelude gives to this side, and the watch over a stage.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use rquickjs::context::EvalOptions;
use rquickjs::convert::List;
use rquickjs::{Array, Ctx, Error, Function, Result};
use rustix::time::{ClockId, clock_gettime};

use crate::limits::{EVALUATION, TEXT_UNITS};

const PRELUDE: &str = include_str!("prelude.js");

/// The prelude's own functions; no rule can reach them.
pub(super) struct ScriptTools<'js> {
    /// Exports of a file to whether there are rules among them, and names and functions of those that are new.
    pub(super) collect: Function<'js>,
    /// The name of a rule that no file exports, or nothing.
    pub(super) silent: Function<'js>,
    /// A call to the same call, frozen.
    pub(super) still: Function<'js>,
    /// An answer to word, reason and hint; throws on anything else.
    pub(super) read: Function<'js>,
    tell: Function<'js>,
}

impl<'js> ScriptTools<'js> {
    /// Runs the prelude.
    pub(super) fn prepare(ctx: &Ctx<'js>) -> Result<Array<'js>> {
        let mut options = EvalOptions::default();
        options.strict = true;
        let prelude: Function<'js> = ctx.eval_with_options(PRELUDE, options)?;
        prelude.call((TEXT_UNITS,))
    }

    pub(super) fn of(made: &Array<'js>) -> Result<ScriptTools<'js>> {
        Ok(ScriptTools { collect: made.get(0)?, still: made.get(1)?, read: made.get(2)?, tell: made.get(3)?, silent: made.get(4)? })
    }

    /// Message and stack of what went wrong. Text of a rule is shortened before it is copied out of the engine.
    pub(super) fn tell(&self, ctx: &Ctx<'js>, error: Error) -> (String, String) {
        if !error.is_exception() {
            return (format!("the engine failed: {error}"), String::new());
        }
        match self.tell.call::<_, List<(String, String)>>((ctx.catch(),)) {
            Ok(List(told)) => told,
            Err(_) => {
                ctx.catch();
                ("it failed and could not say why".to_owned(), String::new())
            }
        }
    }
}

/// The time of one evaluation, as its thread's own share of the processor: what the machine does meanwhile is no fault of a rule.
#[derive(Clone)]
pub(super) struct Watch(Rc<Cell<Duration>>);

impl Watch {
    pub(super) fn start() -> Watch {
        Watch(Rc::new(Cell::new(used() + EVALUATION)))
    }

    pub(super) fn restart(&self) {
        self.0.set(used() + EVALUATION);
    }

    pub(super) fn over(&self) -> bool {
        used() >= self.0.get()
    }
}

/// What this thread had of a processor so far.
fn used() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or(Duration::MAX)
}
