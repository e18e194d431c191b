//! The person's toolchains in rooms: found once, beside the async workers, and again when `skep doctor` looks at the host.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Mutex;
use workspace::{HostBinds, ToolchainChoice, Toolchains};

/// Where they are looked for, and what was found.
pub struct FoundToolchains {
    search: Arc<Search>,
    found: Mutex<Option<Arc<Toolchains>>>,
}

struct Search {
    choice: ToolchainChoice,
    variables: Vec<(String, String)>,
    home: PathBuf,
    shown: Vec<PathBuf>,
}

impl FoundToolchains {
    /// Nothing is looked for before it is needed.
    pub fn new(choice: ToolchainChoice, variables: &[(String, String)], home: &Path, shown: &HostBinds) -> FoundToolchains {
        let variables = variables.iter().filter(|(name, _)| !tool::is_closed(name)).cloned().collect();
        let search = Search { choice, variables, home: home.to_owned(), shown: shown.targets() };
        FoundToolchains { search: Arc::new(search), found: Mutex::default() }
    }

    pub async fn get(&self) -> Arc<Toolchains> {
        let mut found = self.found.lock().await;
        match &*found {
            Some(found) => found.clone(),
            None => found.insert(self.search.clone().run().await).clone(),
        }
    }

    /// What is installed by now; rooms that open from now on see it.
    pub async fn look_again(&self) -> Arc<Toolchains> {
        let fresh = self.search.clone().run().await;
        *self.found.lock().await = Some(fresh.clone());
        fresh
    }
}

impl Search {
    async fn run(self: Arc<Search>) -> Arc<Toolchains> {
        let looked = tokio::task::spawn_blocking(move || Toolchains::find(self.choice.clone(), &self.variables, &self.home, &self.shown));
        match looked.await {
            Ok(found) => Arc::new(found),
            Err(error) => {
                world::log!("skep: toolchains were not looked for: {error}");
                Arc::default()
            }
        }
    }
}
