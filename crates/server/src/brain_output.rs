//! What came of each prompt, as clients read it.

use report::BrainOutput;
use std::time::SystemTime;
use wire::method::brain_output::{
    BrainOutputView, CacheCounts, CashDetails, OutputCash, OutputCost, OutputMetrics, OutputSize, SizeCounts,
};
use world::{TaskId, UsageTotals};

pub(crate) fn view(task: TaskId, output: BrainOutput) -> BrainOutputView {
    let BrainOutput { figures, parts, .. } = output;
    let chars = |text: &str| text.chars().count() as u64;
    BrainOutputView {
        metrics: OutputMetrics {
            size: OutputSize {
                tokens: tokens(&figures),
                chars: SizeCounts {
                    input: chars(&output.prompt),
                    output: chars(output.output.as_deref().unwrap_or_default()),
                    cache: CacheCounts::default(),
                },
            },
            cost: OutputCost {
                time: iso_duration(output.time_ms),
                cash: (figures.unpriced == 0).then(|| OutputCash {
                    total: dollars(figures.micros),
                    deets: parts.or((figures.requests == 0).then_some(Default::default())).map(|parts| CashDetails {
                        input: dollars(parts.input),
                        output: dollars(parts.output),
                        cache: dollars(parts.cache),
                    }),
                }),
            },
        },
        output: output.output,
        episode: format!("{task}/{}", output.episode),
        series: output.series,
    }
}

/// The time by which records are stamped.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn tokens(figures: &UsageTotals) -> SizeCounts {
    let cache = CacheCounts { get: figures.cache_read, set: figures.cache_write };
    SizeCounts { input: figures.input, output: figures.output, cache }
}

/// A time by ISO 8601, without parts that are zero: `PT1H4.5S`.
fn iso_duration(ms: u64) -> String {
    let (hours, minutes, rest) = (ms / 3_600_000, ms / 60_000 % 60, ms % 60_000);
    let mut text = String::from("PT");
    if hours > 0 {
        text.push_str(&format!("{hours}H"));
    }
    if minutes > 0 {
        text.push_str(&format!("{minutes}M"));
    }
    if rest > 0 || ms == 0 {
        let seconds = format!("{}.{:03}", rest / 1_000, rest % 1_000);
        text.push_str(seconds.trim_end_matches('0').trim_end_matches('.'));
        text.push('S');
    }
    text
}

/// Millionths of a dollar: cents, and finer where there are any.
fn dollars(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let cents = text.len() - 4;
    format!("${}", &text[..text.trim_end_matches('0').len().max(cents)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use world::CostParts;

    #[test]
    fn times_and_money_are_written_as_the_seed_says() {
        let times = [(0, "PT0S"), (4, "PT0.004S"), (1_500, "PT1.5S"), (60_000, "PT1M"), (64_500, "PT1M4.5S"), (3_600_000, "PT1H")];
        for (ms, text) in times {
            assert_eq!(iso_duration(ms), text);
        }
        assert_eq!(iso_duration(90_061_001), "PT25H1M1.001S");
        assert_eq!([0, 42_000, 1_000_000, 7].map(dollars), ["$0.00", "$0.042", "$1.00", "$0.000007"]);
    }

    #[test]
    fn an_output_has_the_shape_of_the_seed() {
        let figures =
            UsageTotals { requests: 2, input: 100, output: 20, cache_read: 7, cache_write: 3, micros: 42_000, ..UsageTotals::default() };
        let parts = Some(CostParts { input: 30_000, output: 10_000, cache: 2_000 });
        let output = BrainOutput {
            prompt: "größer".into(),
            output: Some("done".into()),
            figures,
            parts,
            time_ms: 64_500,
            episode: 2,
            series: Some("s-1".into()),
            ..BrainOutput::default()
        };
        let expected = json!({
            "output": "done",
            "metrics": {
                "size": {
                    "tokens": {"input": 100, "output": 20, "cache": {"get": 7, "set": 3}},
                    "chars": {"input": 6, "output": 4, "cache": {"get": 0, "set": 0}},
                },
                "cost": {"time": "PT1M4.5S", "cash": {"total": "$0.042", "deets": {"input": "$0.03", "output": "$0.01", "cache": "$0.002"}}},
            },
            "episode": "task-1/2",
            "series": "s-1",
        });
        assert_eq!(serde_json::to_value(view(TaskId(1), output.clone())).unwrap(), expected);
        let unknown = BrainOutput { figures: UsageTotals { unpriced: 1, ..figures }, series: None, output: None, ..output };
        let value = serde_json::to_value(view(TaskId(1), unknown)).unwrap();
        assert!(
            value["metrics"]["cost"].as_object().unwrap().contains_key("cash") && value["metrics"]["cost"]["cash"].is_null(),
            "{value}"
        );
        assert!(value["series"].is_null() && value["output"].is_null(), "{value}");
    }
}
