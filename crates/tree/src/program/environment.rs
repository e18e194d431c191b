//! What a program is started with: its command line and its variables.

use super::StartPlan;
use crate::Tree;
use crate::spawn::SHOWN;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use world::ProgramRuntime;

/// The modules that run a Python agent, the first that is found.
const RUNNERS: [&str; 2] = ["skep", "hivekernel_sdk"];

impl Tree {
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The folder of the Python SDK: as it was said, or beside the program.
    pub(crate) fn sdk(&self) -> Option<PathBuf> {
        let named = ["SKEP_SDK_PATH", "HIVEKERNEL_SDK_PATH"].into_iter().filter_map(|name| self.variable(name)).map(PathBuf::from);
        let program = gate::program();
        let beside = program.ancestors().skip(1).map(|folder| folder.join("sdk/python"));
        let here = std::env::current_dir().ok().map(|folder| folder.join("sdk/python"));
        let inside = |folder: PathBuf| [folder.join("src"), folder];
        let has_runner = |folder: &PathBuf| RUNNERS.iter().any(|name| folder.join(name).join("runner.py").is_file());
        let mut found = named.chain(beside).chain(here).flat_map(inside);
        found.find(has_runner).and_then(|folder| folder.canonicalize().ok())
    }

    /// The folders that Python looks in: the SDK, what the program was given, what the kernel has.
    pub(super) fn python_path(&self, plan: &StartPlan) -> Vec<PathBuf> {
        let folders = |text: &str| text.split(':').filter(|part| !part.is_empty()).map(PathBuf::from).collect::<Vec<_>>();
        let given = plan.original.env.get("PYTHONPATH").map(String::as_str).unwrap_or_default();
        let shown = plan.original.metadata.get(SHOWN).map(String::as_str).unwrap_or_default();
        let inherited = self.variable("PYTHONPATH").unwrap_or_default();
        let mut path: Vec<PathBuf> = self.sdk().into_iter().collect();
        for folder in [given, shown, inherited].into_iter().flat_map(folders) {
            if !path.contains(&folder) {
                path.push(folder);
            }
        }
        path
    }

    /// Folders that its room shows: those that the operator gave, and no other that its own variables name.
    pub(super) fn shown_folders(&self, plan: &StartPlan) -> Vec<PathBuf> {
        self.shown_by(plan.original.metadata.get(SHOWN).map(String::as_str).unwrap_or_default())
    }

    /// The same by what its metadata names.
    pub(crate) fn shown_by(&self, shown: &str) -> Vec<PathBuf> {
        let inherited = self.variable("PYTHONPATH").unwrap_or_default();
        let named = [shown, inherited].into_iter().flat_map(|text| text.split(':')).filter(|part| part.starts_with('/')).map(PathBuf::from);
        let folders = self.sdk().into_iter().chain(named).filter_map(|folder| folder.canonicalize().ok());
        let mut all: Vec<PathBuf> = folders.filter(|folder| !folder.starts_with(&self.home) && !self.home.starts_with(folder)).collect();
        all.sort();
        all.dedup();
        all
    }

    /// The interpreter of a virtual environment: the one that the program was given, one that its room shows, or `.venv` in a folder that it shows.
    fn environment_python(&self, plan: &StartPlan) -> Option<String> {
        let given = plan.original.env.get("VIRTUAL_ENV").map(PathBuf::from);
        let shown = self.shown_folders(plan).into_iter().flat_map(|folder| [folder.join(".venv"), folder]);
        let is_environment = |folder: &PathBuf| folder.join("pyvenv.cfg").is_file() && folder.join("bin/python3").is_file();
        let found = given.into_iter().chain(shown).find(is_environment)?;
        Some(found.join("bin/python3").display().to_string())
    }

    pub(super) fn command(&self, plan: &StartPlan, python: &str, core: &str) -> Vec<String> {
        let image = &plan.program.image;
        let environment = self.environment_python(plan).filter(|_| plan.program.runtime == ProgramRuntime::Python);
        let words: Vec<&str> = match plan.program.runtime {
            ProgramRuntime::Python => {
                let path = self.python_path(plan);
                let has = |name: &&str| path.iter().any(|folder| folder.join(name).join("runner.py").is_file());
                let runner = RUNNERS.into_iter().find(|name| has(name)).unwrap_or(RUNNERS[0]);
                let module = if runner == RUNNERS[0] { "skep.runner" } else { "hivekernel_sdk.runner" };
                vec![environment.as_deref().unwrap_or(python), "-m", module, "--agent", image, "--core", core]
            }
            ProgramRuntime::Claw => vec![image, "hive", "--core", core],
            ProgramRuntime::Custom | ProgramRuntime::Brain | ProgramRuntime::Virtual => vec![image],
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// Variables of the contract, and those that the program was given. The later of two counts.
    pub(super) fn contract_variables(&self, plan: &StartPlan, core: &str) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = Vec::new();
        let claw = plan.original.metadata.iter().filter_map(|(key, value)| Some((key.strip_prefix("claw.env.")?, value)));
        all.extend(claw.map(|(name, value)| (name.to_owned(), value.clone())));
        all.extend(plan.original.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        let path: Vec<String> = self.python_path(plan).iter().map(|folder| folder.display().to_string()).collect();
        all.retain(|(name, _)| name != "PYTHONPATH");
        all.push(("PYTHONPATH".to_owned(), path.join(":")));
        all.push(("PYTHONUNBUFFERED".to_owned(), "1".to_owned()));
        all.push(("HIVEKERNEL_PID".to_owned(), plan.process.pid.to_string()));
        all.push(("HIVEKERNEL_CORE".to_owned(), core.to_owned()));
        all.push(("HIVE_SESSION_TS".to_owned(), self.session.clone()));
        all
    }
}

/// `YYYYMMDD-HHMMSS` of now, in UTC.
pub(crate) fn session_stamp() -> String {
    let seconds = UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(i64::try_from(days).unwrap_or(0));
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", rest / 3_600, rest % 3_600 / 60, rest % 60)
}

/// The date of a day since 1970: years begin in March, so that the day that some years have more is the last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

pub(super) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let [a, b, c] = [three[0], three.get(1).copied().unwrap_or(0), three.get(2).copied().unwrap_or(0)].map(u32::from);
        let group = a << 16 | b << 8 | c;
        for place in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// Whether a folder is one that rooms show anyway.
pub(crate) fn is_visible(folder: &Path) -> bool {
    ["/usr", "/bin", "/lib", "/opt"].iter().any(|shown| folder.starts_with(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_what_others_write() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn a_day_has_its_date() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(11_017), (2000, 3, 1));
        assert_eq!(date(20_775), (2026, 11, 18));
        assert_eq!(session_stamp().len(), "20261118-000000".len());
    }
}
