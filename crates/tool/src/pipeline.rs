//! What happens around a tool's work: the time limit and second tries.
//!
//! The door's part of seed 002's ten stages is the kernel's: it finds the tool, asks the breaker, decides, and records. **Invariant.**
//! A call ends within its time, and what it began ends with it: dropping the work kills its job or closes its socket, and readers on
//! other threads watch a deadline. **Invariant.** Only a call that changes nothing is made twice.

use crate::context::Context;
use crate::fault::{ToolFault, ToolStop};
use crate::resolved_path::ResolvedPath;
use crate::tool::{Output, Tool};
use serde_json::Value;
use std::future::Future;
use std::time::Duration;

/// Tries after the first, where a manifest names no number.
const RETRIES_DEFAULT: u32 = 1;
/// Between a passing fault and the next try.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Tools stop by themselves when their time is over, and say more about it. This is for one that does not.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) async fn run(tool: &dyn Tool, input: &Value, paths: Vec<ResolvedPath>, context: &Context<'_>) -> Result<Output, ToolStop> {
    let retries = if tool.reads_only(input) { tool.manifest().retries.unwrap_or(RETRIES_DEFAULT) } else { 0 };
    let time = tool.time_limit(input)? + GRACE;
    let mut kept = paths;
    let told = |attempt: u32, fault: &ToolFault| context.subcalls.retried(attempt, &fault.to_string());
    retrying(retries, told, |left| {
        // The last try may have the paths themselves.
        let paths = if left == 0 { Ok(std::mem::take(&mut kept)) } else { kept.iter().map(ResolvedPath::try_clone).collect() };
        async move {
            let paths = paths.map_err(|error| ToolFault::io("open", ".", error))?;
            // A pause of the room is no time of the call's.
            let late = async {
                match context.room {
                    Some(room) => room.awake(time).await,
                    None => tokio::time::sleep(time).await,
                }
            };
            tokio::select! {
                // What ends at once needs no clock.
                biased;
                result = tool.execute(input, paths, context) => result,
                () = late => Err(ToolFault::TimedOut { ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX) }.into()),
            }
        }
    })
    .await
}

/// Tries until something other than a passing fault comes of it. `attempt` is told how many tries are left after it.
async fn retrying<F: Future<Output = Result<Output, ToolStop>>>(
    retries: u32,
    told: impl Fn(u32, &ToolFault),
    mut attempt: impl FnMut(u32) -> F,
) -> Result<Output, ToolStop> {
    let mut made = 0;
    loop {
        match attempt(retries - made).await {
            Err(ToolStop::Failed(fault)) if made < retries && is_worth_a_try(&fault) => {
                made += 1;
                told(made, &fault);
                tokio::time::sleep(RETRY_AFTER).await;
            }
            result => return result.map(|output| Output { retries: made, ..output }),
        }
    }
}

/// A call that used up its time once would only use it up again.
fn is_worth_a_try(fault: &ToolFault) -> bool {
    fault.is_transient() && !matches!(fault, ToolFault::TimedOut { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io;

    fn passing() -> ToolStop {
        ToolFault::io("read", "a", io::Error::from(io::ErrorKind::Interrupted)).into()
    }

    fn lasting() -> ToolStop {
        ToolFault::io("read", "a", io::Error::from(io::ErrorKind::PermissionDenied)).into()
    }

    /// Runs a row of results and gives what came of it with the number of tries.
    async fn played(retries: u32, results: Vec<Result<Output, ToolStop>>) -> (Result<Output, ToolStop>, usize) {
        let mut results = results.into_iter();
        let mut tries = 0;
        let result = retrying(
            retries,
            |_, _| {},
            |_| {
                tries += 1;
                let result = results.next().unwrap();
                async move { result }
            },
        )
        .await;
        (result, tries)
    }

    #[tokio::test]
    async fn a_passing_fault_is_met_with_one_more_try_after_a_pause() {
        let began = std::time::Instant::now();
        let (result, tries) = played(1, vec![Err(passing()), Ok(Output::good(json!(1)))]).await;
        assert_eq!((result.unwrap().retries, tries), (1, 2));
        assert!(began.elapsed() >= RETRY_AFTER);
        let (result, tries) = played(1, vec![Err(passing()), Err(passing())]).await;
        assert!(result.unwrap_err().is_retryable());
        assert_eq!(tries, 2);
    }

    #[tokio::test]
    async fn writes_lasting_faults_refusals_and_spent_time_have_no_second_try() {
        assert_eq!(played(0, vec![Err(passing())]).await.1, 1);
        assert_eq!(played(1, vec![Err(lasting())]).await.1, 1);
        assert_eq!(played(1, vec![Err(ToolFault::TimedOut { ms: 1 }.into())]).await.1, 1);
        let refusal = world::Refusal::new(world::Code::NotFound, "no");
        assert_eq!(played(1, vec![Err(refusal.into())]).await.1, 1);
    }
}
