//! Files that other programs run or obey without being told to. A review marks them.

/// Who runs or obeys a file of this path without being told to, as `(path, by whom)`; a name with a slash is a folder's.
const RUN_BY: &[(&str, &str)] = &[
    (".husky/", "git runs it as a hook"),
    (".githooks/", "git runs it as a hook"),
    ("githooks/", "git runs it as a hook"),
    ("git-hooks/", "git runs it as a hook"),
    (".hooks/", "git may run it as a hook"),
    ("hooks/", "git may run it as a hook"),
    (".git-hooks/", "git runs it as a hook"),
    ("lefthook.yml", "git runs what it says as hooks"),
    ("lefthook.yaml", "git runs what it says as hooks"),
    (".lefthook.yml", "git runs what it says as hooks"),
    (".lefthook/", "git runs it as a hook"),
    (".pre-commit-config.yaml", "git runs what it says as hooks"),
    (".pre-commit-hooks.yaml", "git runs what it says as hooks"),
    (".overcommit.yml", "git runs what it says as hooks"),
    (".lintstagedrc", "git's hooks run what it says"),
    (".gitattributes", "git runs the filters and drivers it names"),
    (".gitmodules", "git fetches what it names"),
    (".envrc", "direnv runs it when you enter the folder"),
    (".direnv/", "direnv runs it when you enter the folder"),
    (".mise.toml", "mise runs it when you enter the folder"),
    ("mise.toml", "mise runs it when you enter the folder"),
    (".mise/", "mise runs it when you enter the folder"),
    (".tool-versions", "version managers obey it when you enter the folder"),
    (".nvmrc", "version managers obey it when you enter the folder"),
    (".python-version", "version managers obey it when you enter the folder"),
    ("shell.nix", "nix-shell and direnv run it"),
    ("flake.nix", "nix and direnv run it"),
    (".bashrc", "a shell runs it when it starts"),
    (".bash_profile", "a shell runs it when it starts"),
    (".profile", "a shell runs it when it starts"),
    (".zshrc", "a shell runs it when it starts"),
    (".zshenv", "a shell runs it when it starts"),
    (".autoenv", "a shell runs it when you enter the folder"),
    (".env", "programs read their environment from it"),
    (".vscode/", "the editor runs what it says when you open the folder"),
    (".idea/", "the editor runs what it says when you open the folder"),
    (".zed/", "the editor runs what it says when you open the folder"),
    (".fleet/", "the editor runs what it says when you open the folder"),
    (".nova/", "the editor runs what it says when you open the folder"),
    (".devcontainer/", "the editor runs what it says when you open the folder"),
    (".devcontainer.json", "the editor runs what it says when you open the folder"),
    (".vimrc", "the editor runs it when you open the folder"),
    (".exrc", "the editor runs it when you open the folder"),
    (".nvimrc", "the editor runs it when you open the folder"),
    (".nvim.lua", "the editor runs it when you open the folder"),
    (".dir-locals.el", "the editor runs it when you open the folder"),
    (".editorconfig", "editors obey it when you open the folder"),
    (".github/", "GitHub runs what it says when it is pushed"),
    (".gitlab/", "GitLab runs what it says when it is pushed"),
    (".gitlab-ci.yml", "GitLab runs what it says when it is pushed"),
    (".circleci/", "CI runs what it says when it is pushed"),
    (".buildkite/", "CI runs what it says when it is pushed"),
    (".woodpecker/", "CI runs what it says when it is pushed"),
    (".woodpecker.yml", "CI runs what it says when it is pushed"),
    (".forgejo/", "CI runs what it says when it is pushed"),
    (".gitea/", "CI runs what it says when it is pushed"),
    (".drone.yml", "CI runs what it says when it is pushed"),
    (".travis.yml", "CI runs what it says when it is pushed"),
    ("Jenkinsfile", "CI runs what it says when it is pushed"),
    ("azure-pipelines.yml", "CI runs what it says when it is pushed"),
    ("bitbucket-pipelines.yml", "CI runs what it says when it is pushed"),
    ("package.json", "npm runs its scripts when it installs"),
    ("binding.gyp", "npm builds it when it installs"),
    (".npmrc", "npm obeys it"),
    (".yarnrc", "yarn obeys it"),
    (".yarnrc.yml", "yarn runs what it names"),
    (".yarn/", "yarn runs it"),
    (".pnpmfile.cjs", "pnpm runs it when it installs"),
    ("setup.py", "pip runs it when it installs"),
    ("sitecustomize.py", "python runs it when it starts"),
    ("usercustomize.py", "python runs it when it starts"),
    ("conftest.py", "pytest runs it whatever is tested"),
    ("build.rs", "cargo runs it when it builds"),
    (".cargo/", "cargo obeys it whatever it does"),
    ("rust-toolchain", "cargo obeys it whatever it does"),
    ("rust-toolchain.toml", "cargo obeys it whatever it does"),
    (".bundle/", "bundler obeys it"),
    (".mvn/", "maven loads it when it starts"),
    ("ld.so.preload", "the loader takes it into every program"),
    (".mcp.json", "agents start the programs it names"),
    ("mcp.json", "agents start the programs it names"),
    ("AGENTS.md", "agents obey it"),
    ("AGENT.md", "agents obey it"),
    ("CLAUDE.md", "agents obey it"),
    ("GEMINI.md", "agents obey it"),
    ("CONVENTIONS.md", "agents obey it"),
    (".cursorrules", "agents obey it"),
    (".windsurfrules", "agents obey it"),
    (".clinerules", "agents obey it"),
    (".goosehints", "agents obey it"),
    ("opencode.json", "agents obey it"),
    ("opencode.jsonc", "agents obey it"),
    (".claude/", "agents run what it says"),
    (".codex/", "agents run what it says"),
    (".cursor/", "agents run what it says"),
    (".gemini/", "agents run what it says"),
    (".opencode/", "agents run what it says"),
    (".aider", "agents obey it"),
    (".windsurf/", "agents obey it"),
];

/// Who runs or obeys this file without being told to; what a review marks.
pub fn runs_by_itself(path: &str) -> Option<&'static str> {
    let lower = path.to_ascii_lowercase();
    let (folder, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
    let is = |known: &str| match known.to_ascii_lowercase().strip_suffix('/') {
        Some(known) => folder.split('/').any(|part| part == known),
        // `.env.local`, `.lintstagedrc.json`, `.aider.conf.yml`
        None if known.starts_with('.') => name == known || name.strip_prefix(known).is_some_and(|rest| rest.starts_with('.')),
        None => name.eq_ignore_ascii_case(known),
    };
    RUN_BY.iter().find(|(known, _)| is(known)).map(|(_, by)| *by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_a_file_by_itself_is_known() {
        for path in
            [".husky/pre-commit", "web/.husky/_/x", ".HUSKY/x", ".githooks/x", ".envrc", ".env.local", "a/.vscode/tasks.json", "CLAUDE.md"]
        {
            assert!(runs_by_itself(path).is_some(), "{path}");
        }
        for path in ["src/husky.rs", "docs/envrc.md", ".envoy", "src/lib.rs", "hooks.md"] {
            assert!(runs_by_itself(path).is_none(), "{path}");
        }
    }
}
