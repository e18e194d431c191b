//! Licence expressions as crates write them: SPDX, and the slash of older ones.

use anyhow::{Result, bail};

/// Does what is allowed satisfy the expression? `AND` binds tighter than `OR`.
pub fn satisfied(expression: &str, allowed: &[String]) -> Result<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let answer = either(&words, &mut at, allowed)?;
    if at != words.len() {
        bail!("`{expression}`");
    }
    Ok(answer)
}

fn either(words: &[&str], at: &mut usize, allowed: &[String]) -> Result<bool> {
    let mut answer = both(words, at, allowed)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        answer |= both(words, at, allowed)?;
    }
    Ok(answer)
}

fn both(words: &[&str], at: &mut usize, allowed: &[String]) -> Result<bool> {
    let mut answer = one(words, at, allowed)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        answer &= one(words, at, allowed)?;
    }
    Ok(answer)
}

fn one(words: &[&str], at: &mut usize, allowed: &[String]) -> Result<bool> {
    let word = words.get(*at).copied().unwrap_or_default();
    *at += 1;
    match word {
        "(" => {
            let answer = either(words, at, allowed)?;
            if words.get(*at) != Some(&")") {
                bail!("a bracket is not closed");
            }
            *at += 1;
            Ok(answer)
        }
        "" | ")" | "AND" | "OR" | "WITH" => bail!("a licence is missing"),
        name => {
            let mut name = name.to_owned();
            if words.get(*at) == Some(&"WITH") {
                name = format!("{name} WITH {}", words.get(*at + 1).copied().unwrap_or_default());
                *at += 2;
            }
            Ok(allowed.contains(&name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(ToOwned::to_owned);
        let check = |text: &str| satisfied(text, &allowed).unwrap();
        for good in
            ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "(MIT OR GPL-3.0) AND ISC", "Apache-2.0 WITH LLVM-exception", "GPL-3.0 AND X OR MIT"]
        {
            assert!(check(good), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND X", "Apache-2.0", "MIT AND X OR Y", "mit"] {
            assert!(!check(bad), "{bad}");
        }
        for broken in ["", "MIT OR", "(MIT", "MIT ISC", "MIT)"] {
            assert!(satisfied(broken, &allowed).is_err(), "{broken}");
        }
    }
}
