//! Budgets as a startup file writes them: `tactical: 2M/day`, `total: 5000000`, `money: 20/day`. Pure.

use serde::Deserialize;
use std::collections::BTreeMap;
use world::{Budget, Tier, budget::ALL_TIERS};

/// What stands behind a tier: one amount, or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum WrittenAmount {
    Number(u64),
    Text(String),
    Several(Vec<WrittenAmount>),
}

/// How long an amount lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AmountSpan {
    Lasting,
    Day,
    Hour,
}

/// The budget that is written, `None` where nothing is. What cannot be read is said by its name.
pub(super) fn budget_of(written: &BTreeMap<String, WrittenAmount>) -> Result<Option<Budget>, String> {
    let mut budget = Budget::default();
    for (name, amount) in written {
        add(&mut budget, name, amount).map_err(|why| format!("budget `{name}`: {why}"))?;
    }
    Ok(Some(budget).filter(|budget| budget.amounts().next().is_some()))
}

fn add(budget: &mut Budget, name: &str, amount: &WrittenAmount) -> Result<(), String> {
    let text = match amount {
        WrittenAmount::Several(all) => return all.iter().try_for_each(|one| add(budget, name, one)),
        WrittenAmount::Number(number) => number.to_string(),
        WrittenAmount::Text(text) => text.clone(),
    };
    let (number, span) = match text.trim().split_once('/') {
        None => (text.trim(), AmountSpan::Lasting),
        Some((number, "day")) => (number.trim(), AmountSpan::Day),
        Some((number, "hour")) => (number.trim(), AmountSpan::Hour),
        Some((_, span)) => return Err(format!("`{span}` is neither a day nor an hour")),
    };
    if name == "money" {
        let micros = scaled(number, 1_000_000).ok_or_else(|| format!("`{number}` is not an amount of dollars"))?;
        match span {
            AmountSpan::Lasting => budget.micros = Some(micros),
            AmountSpan::Day => budget.micros_per_day = Some(micros),
            AmountSpan::Hour => return Err("money is capped in all or for a day".to_owned()),
        }
        return Ok(());
    }
    let tier = if name == "total" { ALL_TIERS } else { name };
    if tier != ALL_TIERS && Tier::parse(tier).is_none() {
        return Err("it is neither a tier nor `total` or `money`".to_owned());
    }
    let tokens = tokens(number).ok_or_else(|| format!("`{number}` is not a number of tokens"))?;
    let caps = match span {
        AmountSpan::Lasting => &mut budget.tokens,
        AmountSpan::Day => &mut budget.tokens_per_day,
        AmountSpan::Hour => &mut budget.tokens_per_hour,
    };
    caps.insert(tier.to_owned(), tokens);
    Ok(())
}

/// `2000000`, `100k` or `2M`.
fn tokens(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    scaled(digits, unit)
}

/// A number with at most as many decimals as the unit has zeros.
fn scaled(text: &str, unit: u64) -> Option<u64> {
    let text = text.replace('_', "");
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let places = unit.checked_ilog10().unwrap_or(0) as usize;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || (text.contains('.') && (!is_number(part) || part.len() > places)) {
        return None;
    }
    let part: u64 = format!("{part:0<places$}").parse().unwrap_or(0);
    whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<Option<Budget>, String> {
        budget_of(&yaml::from_str(yaml).unwrap())
    }

    #[test]
    fn amounts_are_read_in_all_for_a_day_and_for_an_hour() {
        let text = "strategic: 100k/day\ntactical: [2M/day, 150_000/hour]\ntotal: 5000000\nmoney: [20, 2.50/day]\n";
        let budget = read(text).unwrap().unwrap();
        let of = |tier: &str, tokens: u64| BTreeMap::from([(tier.to_owned(), tokens)]);
        assert_eq!(budget.tokens, of("all", 5_000_000));
        assert_eq!(budget.tokens_per_hour, of("tactical", 150_000));
        assert_eq!(budget.tokens_per_day, BTreeMap::from([("strategic".to_owned(), 100_000), ("tactical".to_owned(), 2_000_000)]));
        assert_eq!((budget.micros, budget.micros_per_day), (Some(20_000_000), Some(2_500_000)));
        assert_eq!(read("{}"), Ok(None));
        assert_eq!(tokens("1.5k"), Some(1_500));
    }

    #[test]
    fn what_is_no_amount_is_refused_with_its_name() {
        for (text, why) in [
            ("opus: 5", "budget `opus`: it is neither a tier nor `total` or `money`"),
            ("tactical: 5/week", "budget `tactical`: `week` is neither a day nor an hour"),
            ("tactical: many", "budget `tactical`: `many` is not a number of tokens"),
            ("tactical: 1.2345k", "budget `tactical`: `1.2345k` is not a number of tokens"),
            ("tactical: 99999999999999999999M", "budget `tactical`: `99999999999999999999M` is not a number of tokens"),
            ("money: 1/hour", "budget `money`: money is capped in all or for a day"),
        ] {
            assert_eq!(read(text), Err(why.to_owned()), "{text}");
        }
    }
}
