//! What tokens cost.
//!
//! A dated table comes with the program (`prices.yaml`); a user's own table in the same form goes first. Money is whole millionths of a
//! dollar and rounds up, so that many small requests never cost less than they do.
//!
//! **Invariant.** A model without a price costs what the dearest of its provider costs, and says so: no request is free by mistake.

use crate::Usage;
use serde::Deserialize;
use std::collections::BTreeMap;

const BUILT_IN: &str = include_str!("../prices.yaml");

/// Billionths of a thousandth of a dollar, 10⁻¹², for one token: a price of one dollar for a million tokens is a million of these.
type Pico = u64;
const PICO_A_MICRO: u128 = 1_000_000;

/// Prices by provider and model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices {
    /// When the table was true, as `2026-11-15`.
    pub as_of: String,
    providers: BTreeMap<String, Provider>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Provider {
    models: BTreeMap<String, Price>,
    /// For models that are not listed, where the user says so: a server of one's own is free.
    any: Option<Price>,
}

/// What one model costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    rate: Rate,
    /// Another rate for requests with more input tokens than this.
    long: Option<(u64, Rate)>,
    search: Pico,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rate {
    input: Pico,
    output: Pico,
    cache_read: Pico,
    cache_write: Pico,
    cache_write_1h: Pico,
}

/// What a request costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Millionths of a dollar.
    pub micros: u64,
    /// The model is in no table, and this is the price of its provider's dearest.
    pub unknown: bool,
}

/// A table that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the prices cannot be read: {0}")]
pub struct PriceError(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    as_of: String,
    #[serde(default, rename = "source")]
    _source: Option<String>,
    providers: BTreeMap<String, ProviderFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderFile {
    #[serde(default)]
    models: BTreeMap<String, PriceFile>,
    #[serde(default)]
    any: Option<PriceFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_1h: Option<f64>,
    long: Option<LongFile>,
    /// Dollars for a thousand.
    search: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongFile {
    over: u64,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_1h: Option<f64>,
}

impl Prices {
    /// The table that comes with the program.
    pub fn built_in() -> Result<Prices, PriceError> {
        Prices::parse(BUILT_IN)
    }

    pub fn parse(text: &str) -> Result<Prices, PriceError> {
        let file: TableFile = serde_saphyr::from_str(text).map_err(|error| PriceError(error.to_string()))?;
        let mut providers = BTreeMap::new();
        for (name, provider) in file.providers {
            let models = provider.models.into_iter().map(|(model, price)| Ok((model.clone(), price.read(&model)?)));
            let any = provider.any.map(|price| price.read("any")).transpose()?;
            providers.insert(name, Provider { models: models.collect::<Result<_, PriceError>>()?, any });
        }
        Ok(Prices { as_of: file.as_of, providers })
    }

    /// This table with another's rows before its own.
    pub fn with(mut self, own: Prices) -> Prices {
        for (name, provider) in own.providers {
            let mine = self.providers.entry(name).or_default();
            mine.models.extend(provider.models);
            mine.any = provider.any.or(mine.any);
        }
        self
    }

    /// The price of a model, and whether it is only the dearest of its provider. A provider that nobody knows has the dearest of all.
    pub fn price(&self, provider: &str, model: &str) -> (Price, bool) {
        let Some(known) = self.providers.get(provider) else {
            return (dearest(self.providers.values().flat_map(|provider| provider.models.values())), true);
        };
        let named = known.models.get(model).or_else(|| known.models.get(undated(model))).or(known.any.as_ref());
        match named {
            Some(price) => (*price, false),
            None => (dearest(known.models.values()), true),
        }
    }

    pub fn cost(&self, provider: &str, model: &str, usage: &Usage) -> Cost {
        let (price, unknown) = self.price(provider, model);
        Cost { micros: price.micros(usage), unknown }
    }
}

impl Price {
    /// Millionths of a dollar for this usage, rounded up.
    pub fn micros(&self, usage: &Usage) -> u64 {
        let rate = self.rate_for(usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write));
        let hour = usage.cache_write_1h.min(usage.cache_write);
        let each = [
            (usage.input, rate.input),
            (usage.output, rate.output),
            (usage.cache_read, rate.cache_read),
            (usage.cache_write - hour, rate.cache_write),
            (hour, rate.cache_write_1h),
            (usage.searches, self.search),
        ];
        // INVARIANT: six products of two 64-bit numbers fit in 128 bits with the lengths that `read` allows.
        let pico: u128 = each.iter().map(|(count, price)| u128::from(*count) * u128::from(*price)).fold(0, u128::saturating_add);
        u64::try_from(pico.div_ceil(PICO_A_MICRO)).unwrap_or(u64::MAX)
    }

    /// The most that a request can cost: all its input at the dearest kind, all its output.
    pub fn micros_max(&self, input: u64, output: u64) -> u64 {
        let rate = self.rate_for(input);
        let dear = rate.input.max(rate.cache_read).max(rate.cache_write).max(rate.cache_write_1h);
        let pico = (u128::from(input) * u128::from(dear)).saturating_add(u128::from(output) * u128::from(rate.output));
        u64::try_from(pico.div_ceil(PICO_A_MICRO)).unwrap_or(u64::MAX)
    }

    fn rate_for(&self, input: u64) -> Rate {
        match self.long {
            Some((over, rate)) if input > over => rate,
            _ => self.rate,
        }
    }
}

/// Each figure the highest that any of these has.
fn dearest<'a>(prices: impl Iterator<Item = &'a Price>) -> Price {
    let mut dear = Price::default();
    for price in prices {
        for rate in [Some(price.rate), price.long.map(|(_, rate)| rate)].into_iter().flatten() {
            dear.rate.input = dear.rate.input.max(rate.input);
            dear.rate.output = dear.rate.output.max(rate.output);
            dear.rate.cache_read = dear.rate.cache_read.max(rate.cache_read);
            dear.rate.cache_write = dear.rate.cache_write.max(rate.cache_write);
            dear.rate.cache_write_1h = dear.rate.cache_write_1h.max(rate.cache_write_1h);
        }
        dear.search = dear.search.max(price.search);
    }
    dear
}

/// A model's name without what names a snapshot of it: `-20250929`, `-2026-03-05`, `-latest`, `-001`, `@20250929`. Anything else behind a
/// name is another model with another price.
fn undated(model: &str) -> &str {
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((name, date)) = model.rsplit_once(['-', '@'])
        && (date == "latest" || digits(date, 8) || digits(date, 3))
    {
        return name;
    }
    let parts: Vec<&str> = model.rsplitn(4, '-').collect();
    match parts[..] {
        [day, month, year, name] if digits(day, 2) && digits(month, 2) && digits(year, 4) => name,
        _ => model,
    }
}

/// A price in dollars for a million tokens. More than a dollar for a token is a slip of the keyboard.
fn pico(model: &str, dollars: f64) -> Result<Pico, PriceError> {
    if !(0.0..=1_000_000.0).contains(&dollars) {
        return Err(PriceError(format!("`{dollars}` is not a price for `{model}`")));
    }
    Ok((dollars * 1_000_000.0).round() as Pico)
}

impl PriceFile {
    fn read(&self, model: &str) -> Result<Price, PriceError> {
        let rate = rate(model, self.input, self.output, self.cache_read, self.cache_write, self.cache_write_1h)?;
        let long = match &self.long {
            Some(long) => Some((long.over, rate_of_long(model, long)?)),
            None => None,
        };
        // A thousand searches instead of a million tokens.
        let search = pico(model, self.search.unwrap_or(0.0) * 1_000.0)?;
        Ok(Price { rate, long, search })
    }
}

fn rate_of_long(model: &str, long: &LongFile) -> Result<Rate, PriceError> {
    rate(model, long.input, long.output, long.cache_read, long.cache_write, long.cache_write_1h)
}

fn rate(model: &str, input: f64, output: f64, read: Option<f64>, write: Option<f64>, hour: Option<f64>) -> Result<Rate, PriceError> {
    let write = write.unwrap_or(input);
    Ok(Rate {
        input: pico(model, input)?,
        output: pico(model, output)?,
        cache_read: pico(model, read.unwrap_or(input))?,
        cache_write: pico(model, write)?,
        cache_write_1h: pico(model, hour.unwrap_or(write))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64) -> Usage {
        Usage { input, output, ..Usage::default() }
    }

    #[test]
    fn the_built_in_table_is_read_and_dated() {
        let prices = Prices::built_in().unwrap();
        assert!(prices.as_of.len() == 10 && prices.as_of.starts_with("20"));
        for (provider, model) in [("anthropic", "claude-opus-4-8"), ("openai", "gpt-5.5"), ("google", "gemini-3.8-flash")] {
            assert!(!prices.price(provider, model).1, "{model}");
        }
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let prices = Prices::built_in().unwrap();
        let cost = |provider: &str, model: &str, usage: Usage| prices.cost(provider, model, &usage);
        let known = |micros: u64| Cost { micros, unknown: false };
        assert_eq!(cost("anthropic", "claude-opus-4-8", usage(1_000_000, 1_000_000)), known(30_000_000));
        let cached = Usage { cache_read: 1_000_000, cache_write: 2_000_000, cache_write_1h: 1_000_000, searches: 3, ..Usage::default() };
        assert_eq!(cost("anthropic", "claude-opus-4-8", cached), known(500_000 + 6_250_000 + 10_000_000 + 30_000));
        assert_eq!(cost("anthropic", "claude-haiku-4-5-20251001", usage(1_000_000, 0)), known(1_000_000), "a snapshot");
        assert_eq!(cost("openai", "gpt-5.4-2026-03-05", usage(200_000, 0)), known(500_000), "another snapshot");
        assert_eq!(cost("openai", "gpt-5.4", usage(300_000, 0)), known(1_500_000), "a long one");
        // A part of a millionth is a millionth.
        assert_eq!(cost("openai", "gpt-5-nano", usage(1, 0)), known(1));
        assert_eq!(cost("openai", "gpt-5-nano", usage(0, 0)), known(0));
        assert_eq!(cost("openai", "gpt-5-nano", usage(u64::MAX, u64::MAX)).micros, u64::MAX / 100 * 45 + 7);
    }

    #[test]
    fn an_unknown_model_costs_what_the_dearest_does_and_says_so() {
        let text = "as_of: 2026-01-01\nproviders:\n  p:\n    models:\n      cheap: { input: 1, output: 2, long: { over: 9, input: 7, output: 3 } }\n      dear: { input: 5, output: 9, cache_read: 0.5 }\n";
        let prices = Prices::parse(text).unwrap();
        let million = usage(1_000_000, 1_000_000);
        assert_eq!(prices.cost("p", "dear", &million), Cost { micros: 14_000_000, unknown: false });
        assert_eq!(prices.cost("p", "dear-pro", &million), Cost { micros: 16_000_000, unknown: true });
        assert_eq!(prices.cost("q", "dear", &million), Cost { micros: 16_000_000, unknown: true });
    }

    #[test]
    fn a_users_own_table_goes_first() {
        let own = "as_of: 2026-02-02\nproviders:\n  anthropic:\n    models:\n      claude-opus-4-8: { input: 1, output: 1 }\n  ollama:\n    any: { input: 0, output: 0 }\n";
        let prices = Prices::built_in().unwrap().with(Prices::parse(own).unwrap());
        let million = usage(1_000_000, 1_000_000);
        assert_eq!(prices.cost("anthropic", "claude-opus-4-8", &million).micros, 2_000_000);
        assert_eq!(prices.cost("anthropic", "claude-opus-4-7", &million).micros, 30_000_000);
        assert_eq!(prices.cost("ollama", "anything", &million), Cost { micros: 0, unknown: false });
    }

    #[test]
    fn a_reservation_is_never_less_than_the_bill() {
        let prices = Prices::built_in().unwrap();
        for (provider, model) in
            [("anthropic", "claude-opus-4-8"), ("anthropic", "claude-haiku-5-5"), ("openai", "gpt-5.6"), ("google", "gemini-2.5-pro")]
        {
            let (price, _) = prices.price(provider, model);
            for (input, read, write, hour) in
                [(1000, 0, 0, 0), (0, 1000, 0, 0), (1, 2, 997, 500), (400_000, 1, 0, 0), (0, 0, 300_000, 300_000)]
            {
                let usage = Usage { input, cache_read: read, cache_write: write, cache_write_1h: hour, output: 77, ..Usage::default() };
                assert!(price.micros_max(input + read + write, 77) >= price.micros(&usage), "{model} {usage:?}");
            }
        }
    }

    #[test]
    fn a_bad_table_is_refused() {
        for (text, why) in [
            ("providers: {}", "as_of"),
            ("as_of: x\nproviders: { p: { models: { m: { input: -1, output: 1 } } } }", "`-1` is not a price for `m`"),
            ("as_of: x\nproviders: { p: { models: { m: { input: 1, output: 1, cached: 1 } } } }", "cached"),
        ] {
            let error = Prices::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("the prices cannot be read: ") && error.contains(why), "{error}");
        }
    }
}
