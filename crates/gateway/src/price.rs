//! What tokens cost.
//!
//! A dated table comes with the program (`prices.yaml`); a user's own table in the same form goes first. Money is whole millionths of a
//! dollar and rounds up, so that many small requests never cost less than they do.
//!
//! **Invariant.** A model without a price has none: nobody makes one up, and whoever needs one is told.

use crate::{Pace, ParsedRequest, ServiceMode, TokenUsage};
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
    /// Where it is asked, so that a provider of any name is known by its address.
    hosts: Vec<String>,
    models: BTreeMap<String, Price>,
    /// These two for models that say nothing of it themselves.
    modes: Option<Modes>,
    search: Option<Pico>,
    /// For models that are not listed, where the user says so: a server of one's own is free.
    any: Option<Price>,
}

/// What one model costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    rate: Rate,
    /// Another rate for requests with more input tokens than this.
    long: Option<(u64, Rate)>,
    search: Option<Pico>,
    modes: Option<Modes>,
}

/// Thousandths of the price, for each way to be served that has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Modes {
    flex: u32,
    priority: u32,
    fast: u32,
    us: u32,
}

const PRICE: u32 = 1_000;
const LIST: Modes = Modes { flex: PRICE, priority: PRICE, fast: PRICE, us: PRICE };

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rate {
    input: Pico,
    output: Pico,
    cache_read: Pico,
    cache_write: Pico,
    cache_write_1h: Pico,
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
    hosts: Vec<String>,
    modes: Option<ModesFile>,
    search: Option<f64>,
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
    modes: Option<ModesFile>,
}

/// How many times the price.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModesFile {
    flex: Option<f64>,
    priority: Option<f64>,
    fast: Option<f64>,
    us: Option<f64>,
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

    /// A table of the operator's own; `None` where there is no such file.
    pub fn read(path: &std::path::Path) -> Result<Option<Prices>, PriceError> {
        match yaml::read_file(path) {
            Ok(text) => Prices::parse(&text).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(PriceError(error.to_string())),
        }
    }

    pub fn parse(text: &str) -> Result<Prices, PriceError> {
        let file: TableFile = yaml::from_str(text).map_err(|error| PriceError(error.to_string()))?;
        let mut providers = BTreeMap::new();
        for (name, provider) in file.providers {
            let models = provider.models.into_iter().map(|(model, price)| Ok((model.clone(), price.read(&model)?)));
            let any = provider.any.map(|price| price.read("any")).transpose()?;
            let modes = provider.modes.map(|modes| modes.read(&name)).transpose()?;
            let search = provider.search.map(|dollars| search(&name, dollars)).transpose()?;
            let models = models.collect::<Result<_, PriceError>>()?;
            providers.insert(name, Provider { hosts: provider.hosts, models, modes, search, any });
        }
        Ok(Prices { as_of: file.as_of, providers })
    }

    /// This table with another's rows before its own.
    pub fn with(mut self, own: Prices) -> Prices {
        for (name, provider) in own.providers {
            let mine = self.providers.entry(name).or_default();
            mine.hosts.extend(provider.hosts);
            mine.models.extend(provider.models);
            mine.modes = provider.modes.or(mine.modes);
            mine.search = provider.search.or(mine.search);
            mine.any = provider.any.or(mine.any);
        }
        self
    }

    /// Gives a provider that the table does not name the prices of the one that is asked at the same host.
    pub fn known_by(&mut self, name: &str, host: &str) {
        let same = self.providers.values().find(|provider| provider.hosts.iter().any(|known| known == host)).cloned();
        if let Some(same) = same {
            self.providers.entry(name.to_owned()).or_insert(same);
        }
    }

    /// Does a table name this model of that provider?
    pub fn names(&self, provider: &str, model: &str) -> bool {
        self.providers.get(provider).is_some_and(|known| known.models.contains_key(model) || known.models.contains_key(undated(model)))
    }

    /// The price of a model, where a table has it.
    pub fn price(&self, provider: &str, model: &str) -> Option<Price> {
        let known = self.providers.get(provider)?;
        let price = known.models.get(model).or_else(|| known.models.get(undated(model))).or(known.any.as_ref())?;
        Some(Price { modes: price.modes.or(known.modes), search: price.search.or(known.search), ..*price })
    }
}

impl Price {
    /// Millionths of a dollar for this usage, rounded up.
    pub fn micros(&self, usage: &TokenUsage) -> u64 {
        let rate = self.rate_for(usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write));
        let hour = usage.cache_write_1h.min(usage.cache_write);
        let each = [
            (usage.input, rate.input),
            (usage.output, rate.output),
            (usage.cache_read, rate.cache_read),
            (usage.cache_write - hour, rate.cache_write),
            (hour, rate.cache_write_1h),
        ];
        // INVARIANT: a product of two 64-bit numbers fits in 128 bits.
        let tokens = each.iter().map(|(count, price)| u128::from(*count) * u128::from(*price)).fold(0, u128::saturating_add);
        self.sum(tokens, usage.mode, usage.searches)
    }

    /// The same for its input, its output and the cache alone; searches are in none of them.
    pub fn micros_by_part(&self, usage: &TokenUsage) -> [u64; 3] {
        let rate = self.rate_for(usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write));
        let hour = usage.cache_write_1h.min(usage.cache_write);
        let times = |count: u64, price: Pico| u128::from(count) * u128::from(price);
        let cache = times(usage.cache_read, rate.cache_read)
            .saturating_add(times(usage.cache_write - hour, rate.cache_write))
            .saturating_add(times(hour, rate.cache_write_1h));
        [times(usage.input, rate.input), times(usage.output, rate.output), cache].map(|tokens| self.sum(tokens, usage.mode, 0))
    }

    /// The most that a request can cost: all its input at the dearest kind, all its output, served as it wants and searching as often
    /// as it may.
    pub fn micros_max(&self, ask: &ParsedRequest, input: u64, output: u64) -> u64 {
        let rate = self.rate_for(input);
        let dear = rate.input.max(rate.cache_read).max(rate.cache_write).max(rate.cache_write_1h);
        let tokens = (u128::from(input) * u128::from(dear)).saturating_add(u128::from(output) * u128::from(rate.output));
        // Who asks for less haste may get the usual.
        let pace = if ask.mode.pace == Pace::Flex { Pace::Standard } else { ask.mode.pace };
        self.sum(tokens, ServiceMode { pace, ..ask.mode }, ask.searches)
    }

    fn sum(&self, tokens: u128, mode: ServiceMode, searches: u64) -> u64 {
        let modes = self.modes.unwrap_or(LIST);
        let pace = match mode.pace {
            Pace::Standard => PRICE,
            Pace::Flex => modes.flex,
            Pace::Priority => modes.priority,
            Pace::Fast => modes.fast,
        };
        let place = if mode.us { modes.us } else { PRICE };
        let times = |sum: u128, times: u32| sum.saturating_mul(u128::from(times)).div_ceil(u128::from(PRICE));
        let pico = times(times(tokens, pace), place).saturating_add(u128::from(searches) * u128::from(self.search.unwrap_or(0)));
        u64::try_from(pico.div_ceil(PICO_A_MICRO)).unwrap_or(u64::MAX)
    }

    fn rate_for(&self, input: u64) -> Rate {
        match self.long {
            Some((over, rate)) if input > over => rate,
            _ => self.rate,
        }
    }
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

/// In dollars for a thousand searches instead of a million tokens.
fn search(whose: &str, dollars: f64) -> Result<Pico, PriceError> {
    pico(whose, dollars * 1_000.0)
}

impl PriceFile {
    fn read(&self, model: &str) -> Result<Price, PriceError> {
        let rate = rate(model, self.input, self.output, self.cache_read, self.cache_write, self.cache_write_1h)?;
        let long = match &self.long {
            Some(long) => Some((long.over, rate_of_long(model, long)?)),
            None => None,
        };
        let search = self.search.map(|dollars| search(model, dollars)).transpose()?;
        let modes = self.modes.as_ref().map(|modes| modes.read(model)).transpose()?;
        Ok(Price { rate, long, search, modes })
    }
}

impl ModesFile {
    fn read(&self, whose: &str) -> Result<Modes, PriceError> {
        let times = |times: Option<f64>| match times.unwrap_or(1.0) {
            times if (0.0..=1_000.0).contains(&times) => Ok((times * f64::from(PRICE)).ceil() as u32),
            times => Err(PriceError(format!("`{times}` times the price of `{whose}` is not a price"))),
        };
        Ok(Modes { flex: times(self.flex)?, priority: times(self.priority)?, fast: times(self.fast)?, us: times(self.us)? })
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
mod tests;
