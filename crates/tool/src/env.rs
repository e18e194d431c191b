//! Which variables may go into a room.
//!
//! By default none does. What a trusted configuration names passes here, and what may hold a credential or alter
//! program loading stays outside all the same: a room's programs are not trusted.

/// Seed 002's lists.
const PREFIXES: &[&str] = &["AWS_", "AZURE_", "GCP_", "GOOGLE_", "OPENAI_", "ANTHROPIC_", "GITHUB_", "GITLAB_"];
const SUFFIXES: &[&str] = &["TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "API_KEY", "PRIVATE_KEY"];
/// Not secrets, but ways to make a program load or run something else.
const LOADER_NAMES: &[&str] = &["BASH_ENV", "ENV", "NODE_OPTIONS", "PYTHONSTARTUP", "PERL5OPT", "RUBYOPT"];
const LOADER_PREFIXES: &[&str] = &["LD_", "DYLD_", "GIT_", "BASH_FUNC_", "SKEP_"];

/// The variables that may pass, in their order.
pub fn scrub(variables: &[(String, String)]) -> Vec<(String, String)> {
    variables.iter().filter(|(name, _)| !is_closed(name)).cloned().collect()
}

/// Must this variable stay outside every room, whoever names it?
pub fn is_closed(name: &str) -> bool {
    !may_pass(name)
}

fn may_pass(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_name = !name.is_empty() && !name.contains(|c: char| c == '=' || c.is_control() || c.is_whitespace());
    // `CREDENTIALS` and `TOKENS` are the same thing in the plural.
    let singular = upper.strip_suffix('S').unwrap_or(&upper);
    let is_secret = PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
        || SUFFIXES.iter().any(|suffix| upper.ends_with(suffix) || singular.ends_with(suffix));
    let alters_loading = LOADER_NAMES.contains(&upper.as_str()) || LOADER_PREFIXES.iter().any(|prefix| upper.starts_with(prefix));
    is_name && !is_secret && !alters_loading
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_outside_and_ordinary_variables_pass() {
        let refused = [
            "AWS_REGION",
            "azure_tenant",
            "GCP_PROJECT",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "OPENAI_BASE_URL",
            "ANTHROPIC_MODEL",
            "GITHUB_ACTIONS",
            "GITLAB_CI",
            "NPM_TOKEN",
            "my_secret",
            "DB_PASSWORD",
            "X_CREDENTIAL",
            "STRIPE_API_KEY",
            "SSH_PRIVATE_KEY",
            "TOKEN",
            "REFRESH_TOKENS",
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "GIT_CONFIG_COUNT",
            "NODE_OPTIONS",
            "SKEP_HOME",
            "BASH_ENV",
            "",
            "A=B",
        ];
        for name in refused {
            assert!(!may_pass(name), "{name}");
        }
        for name in ["CI", "RUST_LOG", "TOKENIZER", "SECRETARY", "NODE_ENV", "LANG", "MY_AWS_NOTE", "KEYBOARD"] {
            assert!(may_pass(name), "{name}");
        }
        let given = [("CI".to_owned(), "1".to_owned()), ("NPM_TOKEN".to_owned(), "x".to_owned())];
        assert_eq!(scrub(&given), [("CI".to_owned(), "1".to_owned())]);
    }
}
