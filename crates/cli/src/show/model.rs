//! Usage, budgets and the gateway, as people see them.

use super::measure::{count, dollars, plural};
use super::{Line, Page, table};
use crate::command::gateway::environment;
use crate::remedy;
use wire::budget::{Cap, WARN_PERCENT};
use wire::method::model::{AccountView, BudgetListResult, GatewayOpenResult, ModelUsageResult, WaitView};
use wire::{AtCap, Budget, By, Spend, UsageTotals};

/// Usage as a table. Where that is wider than the terminal each name stands above its figures, for none of them may be cut off.
pub fn usage(result: &ModelUsageResult, by: By, columns: Option<usize>) -> Page {
    if result.rows.is_empty() {
        let hint = "`skep act … --brain native` and `skep gateway run -- COMMAND` ask one; who answers stands in $SKEP_HOME/config.yml";
        return Page(vec![Line::new().plain("no model was asked yet"), Line::new().faint(hint)]);
    }
    let head = ["", "requests", "input", "cache read", "cache write", "output", "cost", ""].map(|text| Line::new().faint(text)).to_vec();
    let mut rows = vec![head];
    rows.extend(result.rows.iter().map(|row| figures(Line::new().plain(&row.name), &row.figures, &row.guessed, &row.held)));
    if result.rows.len() > 1 {
        rows.push(figures(Line::new().strong("all"), &result.total, &result.guessed, &result.held));
    }
    let rows = flush_right(rows);
    let wide = table(rows.clone());
    let fits = columns.is_none_or(|columns| wide.0.iter().all(|line| line.width() <= columns));
    let mut page = if fits { wide } else { stacked(rows) };
    page.blank();
    if by == By::Tree {
        page.push(Line::new().faint("each process with everything below it"));
    }
    page.push(Line::new().faint(format!("prices as of {}", result.prices_as_of)));
    if !result.unpriced.is_empty() {
        let (price, is) = if result.unpriced.len() == 1 { ("price", "is") } else { ("prices", "are") };
        let models = result.unpriced.join(", ");
        page.push(Line::new().plain(format!("the {price} of {models} {is} not known, and what that cost is in no sum")));
        page.because("fix", "name it in $SKEP_HOME/prices.yaml, or say `free: true` of its provider in config.yml");
    }
    if amount(&result.guessed).is_some() {
        page.push(
            Line::new()
                .plain("estimated is what providers that reported no usage may have charged; its tokens are counted, and it is in no cost"),
        );
    }
    if amount(&result.held).is_some() {
        let held = "held is what requests that broke off may have cost beyond what is known; it counts against the caps for a day";
        page.push(Line::new().plain(held));
        page.because("fix", "`skep budget reconcile PID …` puts what the bill says in its place; `skep budget` has the pids");
    }
    page
}

/// Figures stand flush right; the name before and the remark behind them do not.
fn flush_right(mut rows: Vec<Vec<Line>>) -> Vec<Vec<Line>> {
    let columns = rows.first().map_or(0, Vec::len);
    for column in 1..columns.saturating_sub(1) {
        let width = rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
        for row in &mut rows {
            let cell = std::mem::take(&mut row[column]);
            row[column] = Line::new().plain(" ".repeat(width - cell.width())).join(cell);
        }
    }
    rows
}

/// Each name, with its remark, on a line of its own.
fn stacked(rows: Vec<Vec<Line>>) -> Page {
    let mut page = Page::new();
    for mut row in rows {
        let remark = row.pop().unwrap_or_default();
        let mut cells = row.into_iter();
        let name = cells.next().unwrap_or_default();
        if !name.is_empty() {
            page.push(if remark.is_empty() { name } else { name.plain("  ").join(remark) });
        }
        page.push(cells.fold(Line::new(), |line, cell| line.plain("  ").join(cell)));
    }
    page
}

/// Money, or tokens where there is none; nothing where there is neither.
fn amount(spend: &Spend) -> Option<String> {
    match (spend.micros, spend.of(wire::budget::ALL_TIERS)) {
        (0, 0) => None,
        (0, tokens) => Some(plural(tokens, "token")),
        (micros, _) => Some(dollars(micros)),
    }
}

fn figures(name: Line, figures: &UsageTotals, guessed: &Spend, held: &Spend) -> Vec<Line> {
    let estimated = (figures.estimated > 0).then(|| {
        let of = amount(guessed).map_or_else(String::new, |amount| format!(": {amount}"));
        format!("{} estimated{of}", figures.estimated)
    });
    let held = amount(held).map(|amount| format!("{amount} held"));
    let remark: Vec<String> = estimated.into_iter().chain(held).collect();
    // What is known was spent; the rest is in the remark.
    let cost = match (figures.unpriced, figures.micros.saturating_sub(guessed.micros)) {
        (1.., 0) => "unknown".to_owned(),
        (unpriced, micros) => {
            let more = if unpriced > 0 { " + unknown" } else { "" };
            format!("${}.{:06}{more}", count(micros / 1_000_000), micros % 1_000_000)
        }
    };
    let number = |n: u64| Line::new().plain(count(n));
    vec![
        name,
        number(figures.requests),
        number(figures.input),
        number(figures.cache_read),
        number(figures.cache_write),
        number(figures.output),
        Line::new().plain(cost),
        Line::new().faint(remark.join(", ")),
    ]
}

/// Budgets one by one, then who spends without one.
pub fn budgets(result: &BudgetListResult, now_ms: i64) -> Page {
    let mut page = Page::new();
    if result.accounts.is_empty() {
        page.push(Line::new().plain("nothing is capped and nothing is spent"));
    }
    let mut free = Vec::new();
    for view in &result.accounts {
        match &view.account.budget {
            Some(budget) => page.append(capped(view, budget, now_ms)),
            None => free.push(uncapped(view)),
        }
    }
    if !free.is_empty() {
        if free.len() < result.accounts.len() {
            page.blank();
        }
        page.push(Line::new().faint("without a budget of their own"));
        page.append(table(free));
    }
    for view in &result.accounts {
        let what = match (guessed(view), amounts(&view.held_of_its_own)) {
            (None, None) => continue,
            (Some(_), None) => "the estimates",
            (None, Some(_)) => "what is held",
            (Some(_), Some(_)) => "the estimates and what is held",
        };
        let fix = format!("`skep budget reconcile {} …` says what {what} of {} really were", view.pid, view.name);
        page.push(Line::new().plain(fix));
    }
    page
}

fn capped(view: &AccountView, budget: &Budget, now_ms: i64) -> Page {
    let mut page = Page(vec![Line::new().strong(&view.name)]);
    page.append(table(caps(view, budget, now_ms)));
    view.waits.iter().for_each(|wait| page.push(Line::new().wait("  ◍ ").plain(waits(wait))));
    page
}

/// Who waits for more, and what lets it go on.
pub fn waits(wait: &WaitView) -> String {
    let step = remedy::next_step(&wait.remedy);
    let step = if step.starts_with("skep ") { format!("`{step}`") } else { step };
    format!("a request of process {} waits for {}: {step}", wait.pid, wait.what)
}

fn uncapped(view: &AccountView) -> Vec<Line> {
    let (spent, estimated) = (&view.account.spent, &view.guessed_in_tree);
    let tokens = |spend: &Spend| spend.of(wire::budget::ALL_TIERS);
    vec![
        Line::new().plain(format!("  {}", view.name)),
        Line::new().plain(format!("{} spent", dollars(spent.micros.saturating_sub(estimated.micros)))),
        Line::new().plain(plural(tokens(spent).saturating_sub(tokens(estimated)), "token")),
        Line::new().faint(
            [
                amounts(estimated).map(|estimated| format!("{estimated} estimated")),
                amounts(&view.account.held).map(|held| format!("{held} held")),
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", "),
        ),
    ]
}

/// What of a process's own spending is only an estimate.
fn guessed(view: &AccountView) -> Option<String> {
    amounts(&view.guessed)
}

fn amounts(spend: &Spend) -> Option<String> {
    let tokens = spend.tokens.iter().filter(|(_, amount)| **amount > 0).map(|(tier, amount)| format!("{} {tier} tokens", count(*amount)));
    let money = (spend.micros > 0).then(|| dollars(spend.micros));
    let all: Vec<String> = tokens.chain(money).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

fn caps(view: &AccountView, budget: &Budget, now_ms: i64) -> Vec<Vec<Line>> {
    let account = &view.account;
    let row = |name: String, [spent, estimated, reserved, leased, held]: [u64; 5], cap: u64, written: fn(u64) -> String| {
        // Estimates count against the cap, and are no known spending.
        let share = if cap == 0 { 100 } else { u64::try_from(u128::from(spent) * 100 / u128::from(cap)).unwrap_or(u64::MAX) };
        let share = match share {
            ..WARN_PERCENT => Line::new().plain(format!("{share} %")),
            WARN_PERCENT..100 => Line::new().wait(format!("{share} %, nearly used up")),
            _ => Line::new().bad(format!("{share} %, used up")),
        };
        let held = [(estimated, "estimated"), (reserved, "reserved"), (leased, "leased"), (held, "held")]
            .into_iter()
            .filter(|(amount, _)| *amount > 0);
        let held: Vec<String> = held.map(|(amount, word)| format!("{} {word}", written(amount))).collect();
        let used = format!("{} of {}", written(spent.saturating_sub(estimated)), written(cap));
        vec![Line::new().plain(format!("  {name}")), Line::new().plain(used), share, Line::new().faint(held.join(", "))]
    };
    let parts = [&account.spent, &view.guessed_in_tree, &account.reserved, &account.leased, &account.held];
    let mut rows = Vec::new();
    rows.extend(budget.micros.map(|cap| row("money".into(), parts.map(|part| part.micros), cap, dollars)));
    rows.extend(budget.tokens.iter().map(|(tier, cap)| row(format!("{tier} tokens"), parts.map(|part| part.of(tier)), *cap, count)));
    let passing = budget.amounts().filter(|(what, _)| what.passes());
    rows.extend(passing.map(|(what, cap)| {
        let in_flight = [&account.reserved, &account.leased, &account.held].map(|part| what.amount_of(part));
        let [reserved, leased, held] = in_flight;
        let spent = account.used(&what, now_ms).saturating_sub(in_flight.into_iter().fold(0, u64::saturating_add));
        let written = if what.is_money() { dollars } else { count };
        let name = match &what {
            Cap::PerDay(tier) => format!("{tier} tokens a day"),
            Cap::PerHour(tier) => format!("{tier} tokens an hour"),
            other => other.to_string(),
        };
        row(name, [spent, 0, reserved, leased, held], cap, written)
    }));
    let plain = |name: &str, text: String| vec![Line::new().plain(format!("  {name}")), Line::new().plain(text)];
    rows.extend(budget.requests_per_minute.map(|cap| plain("requests", format!("{} a minute", count(cap.into())))));
    rows.extend(budget.context.map(|cap| plain("context", format!("{} tokens", count(cap)))));
    rows.push(plain("at the cap", if budget.at_cap == AtCap::Ask { "waits for you" } else { "refused" }.to_owned()));
    rows
}

/// Lines that a shell can read.
pub fn opened(result: &GatewayOpenResult) -> Page {
    let lines = environment(result).into_iter().map(|(name, value)| Line::new().plain(format!("export {name}={value}")));
    Page(lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_figure_is_cut_off_by_a_narrow_terminal() {
        let figures = json!({"requests": 3, "input": 1_234_567, "output": 1_500, "cache_read": 300, "cache_write": 30, "reasoning": 0,
            "micros": 31_704, "estimated": 1});
        let mut row = figures.clone();
        row["name"] = json!("anthropic/claude-sonnet-4-5");
        let mut result: ModelUsageResult =
            serde_json::from_value(json!({"rows": [row], "total": figures, "prices_as_of": "2026-11-15"})).unwrap();
        let shown = |result: &ModelUsageResult, columns| usage(result, By::Model, columns).render(false, columns);
        let narrow = "  requests      input  cache read  cache write  output       cost
anthropic/claude-sonnet-4-5  1 estimated
         3  1,234,567         300           30   1,500  $0.031704

prices as of 2026-11-15
";
        assert_eq!(shown(&result, Some(80)), narrow);
        let wide = shown(&result, Some(120));
        assert!(wide.contains("\nanthropic/claude-sonnet-4-5         3  1,234,567 "), "{wide}");
        assert_eq!(shown(&result, None), wide);
        result.unpriced = vec!["a/x".into(), "b/y".into()];
        let told = shown(&result, None);
        assert!(told.contains("\nthe prices of a/x, b/y are not known") && told.contains("`free: true`"), "{told}");
    }

    #[test]
    fn a_budget_says_how_near_its_end_is_and_who_waits() {
        let nothing = json!({"tokens": {}, "micros": 0});
        let account = |pid: u64, name: &str, budget: serde_json::Value, micros: u64| {
            json!({"pid": pid, "name": format!("{pid} {name}"), "budget": budget, "spent": {"tokens": {"tactical": 4_830}, "micros": micros},
                "reserved": {"tokens": {}, "micros": 5_000}, "leased": nothing, "minute": 0, "requests": 0, "warned": []})
        };
        let mut kernel = account(1, "kernel", json!({"micros": 600_000, "tokens": {"tactical": 10_000}, "at_cap": "ask"}), 509_885);
        let remedy = json!({"do": "grant_budget", "pid": 1, "what": "money", "missing": 55_000});
        kernel["waits"] = json!([{"pid": 3, "of": 1, "what": "money", "remedy": remedy}]);
        let mut client = account(5, "client.2", json!(null), 3_430);
        client["guessed"] = json!({"tokens": {"tactical": 193}, "micros": 3_430});
        client["guessed_in_tree"] = client["guessed"].clone();
        kernel["guessed_in_tree"] = client["guessed"].clone();
        let shown = json!({"accounts": [kernel, account(3, "worker.1", json!(null), 506_455), client]});
        let expected = "\
1 kernel
  money            $0.506455 of $0.60  84 %, nearly used up  $0.00343 estimated, $0.005 reserved
  tactical tokens  4,637 of 10,000     48 %                  193 estimated
  at the cap       waits for you
  ◍ a request of process 3 waits for money: `skep budget grant 1 --money 0.06`

without a budget of their own
  3 worker.1  $0.506455 spent  4,830 tokens
  5 client.2  $0.00 spent      4,637 tokens  193 tactical tokens and $0.00343 estimated
`skep budget reconcile 5 …` says what the estimates of 5 client.2 really were
";
        assert_eq!(budgets(&serde_json::from_value(shown).unwrap(), 0).render(false, None), expected);
    }

    #[test]
    fn caps_of_a_day_and_an_hour_show_what_is_spent_in_them() {
        let hour_ms = 3_600_000;
        let spend = |tokens: u64, micros: u64| json!({"tokens": {"tactical": tokens}, "micros": micros});
        let budget = json!({"micros_per_day": 5_000_000, "tokens_per_day": {"tactical": 1_000}, "tokens_per_hour": {"all": 500}, "at_cap": "refuse"});
        let account = json!({"pid": 1, "name": "1 kernel", "budget": budget, "spent": spend(9_000, 9_000_000), "reserved": spend(50, 100_000),
            "leased": spend(0, 0), "minute": 0, "requests": 0, "warned": [],
            "day": 0, "spent_day": spend(850, 1_000_000), "hour": 3, "spent_hour": spend(400, 10)});
        let result: BudgetListResult = serde_json::from_value(json!({"accounts": [account]})).unwrap();
        let expected = "\
1 kernel
  tactical tokens a day  850 of 1,000    85 %, nearly used up  50 reserved
  all tokens an hour     400 of 500      80 %, nearly used up  50 reserved
  money a day            $1.00 of $5.00  20 %                  $0.10 reserved
  at the cap             refused
";
        assert_eq!(budgets(&result, 3 * hour_ms).render(false, None), expected);
        let next = budgets(&result, 4 * hour_ms).render(false, None);
        assert!(next.contains("all tokens an hour     0 of 500 ") && next.contains("850 of 1,000"), "{next}");
    }
}
