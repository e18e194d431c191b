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

/// Has git compare sizes and times alone.
///
/// Its index holds the owner of each file. Where a room shows another owner, it would take every file for changed and read them all.
pub(crate) const SIZE_AND_TIME: (&str, &str) = ("core.checkStat", "minimal");

/// The variables by which git is told how it is in a room. Settings in a file would not reach a git that was built to look elsewhere.
pub(crate) fn for_git(owners_are_mapped: bool) -> Vec<(String, String)> {
    // A room has one user, so git's question whose repository this is has one answer.
    let settings = std::iter::once(("safe.directory", "*")).chain(owners_are_mapped.then_some(SIZE_AND_TIME));
    let mut variables = Vec::new();
    for (at, (key, value)) in settings.enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{at}"), key.to_owned()));
        variables.push((format!("GIT_CONFIG_VALUE_{at}"), value.to_owned()));
    }
    variables.push(("GIT_CONFIG_COUNT".to_owned(), (variables.len() / 2).to_string()));
    variables
}

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
    fn git_compares_owners_only_where_they_are_the_hosts() {
        let told = |owners_are_mapped| {
            let variables = for_git(owners_are_mapped);
            let values = ["GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0", "GIT_CONFIG_KEY_1", "GIT_CONFIG_VALUE_1"];
            values.map(|name| variables.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value).to_owned())
        };
        assert_eq!(told(false), ["1", "safe.directory", "*", "", ""]);
        assert_eq!(told(true), ["2", "safe.directory", "*", "core.checkStat", "minimal"]);
    }

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
