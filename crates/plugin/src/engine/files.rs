//! The rule files as modules: which of them a name means, and where in them something stands.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Error, Module, Result};

use super::ENTRY;

/// Names and JavaScript texts. Lines and columns are those of the TypeScript.
pub(super) struct Files(pub(super) Vec<(String, String)>);

/// What happened while modules were loaded.
#[derive(Default)]
pub(super) struct Loading {
    /// The file that was loaded last.
    pub(super) last: Option<String>,
    /// Files that another file uses.
    pub(super) imported: BTreeSet<String>,
    /// Who asked for what, in vain.
    pub(super) missing: Option<(String, String)>,
}

impl Files {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }

    /// The file that `name` means in `base`: relative, with or without its ending.
    fn resolve(&self, base: &str, name: &str) -> Option<&str> {
        if base == ENTRY {
            return self.0.iter().find(|(known, _)| known == name).map(|(known, _)| known.as_str());
        }
        if !name.starts_with("./") && !name.starts_with("../") {
            return None;
        }
        let mut path: Vec<&str> = base.split('/').collect();
        path.pop();
        for part in name.split('/') {
            match part {
                "." | "" => {}
                ".." => drop(path.pop()?),
                part => path.push(part),
            }
        }
        let path = path.join("/");
        self.0.iter().map(|(known, _)| known.as_str()).find(|known| *known == path || known.strip_suffix(".ts") == Some(&path))
    }

    /// Line and column of the first occurrence.
    pub(super) fn find(&self, file: &str, text: &str) -> Option<(u32, u32)> {
        let whole = self.text(file)?;
        let before = &whole[..whole.find(text)?];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Some((u32::try_from(line).ok()?, u32::try_from(column).ok()?))
    }

    /// The same of a text between quotes.
    pub(super) fn find_quoted(&self, file: &str, text: &str) -> Option<(u32, u32)> {
        ['\'', '"'].iter().find_map(|quote| self.find(file, &format!("{quote}{text}{quote}")))
    }

    /// The innermost place in one of the files that an engine's stack names: `at judge (rules/a.ts:3:7)`.
    pub(super) fn place(&self, stack: &str) -> Option<(&str, (u32, u32))> {
        stack.lines().find_map(|line| {
            let line = line.trim().strip_suffix(')').unwrap_or(line.trim());
            let mut parts = line.rsplitn(3, ':');
            let (column, row) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let before = parts.next()?;
            let names = |name: &&str| before.strip_suffix(*name).is_some_and(|rest| rest.is_empty() || rest.ends_with(['(', ' ']));
            self.0.iter().map(|(name, _)| name.as_str()).find(names).map(|name| (name, (row, column)))
        })
    }
}

/// Modules among the files and nowhere else.
pub(super) fn among(files: &Rc<Files>, loading: &Rc<RefCell<Loading>>) -> (Among, Among) {
    let among = || Among { files: Rc::clone(files), loading: Rc::clone(loading) };
    (among(), among())
}

pub(super) struct Among {
    files: Rc<Files>,
    loading: Rc<RefCell<Loading>>,
}

impl Resolver for Among {
    fn resolve<'js>(&mut self, _ctx: &Ctx<'js>, base: &str, name: &str, attributes: Option<ImportAttributes<'js>>) -> Result<String> {
        let mut loading = self.loading.borrow_mut();
        let found = self.files.resolve(base, name).filter(|_| attributes.is_none());
        let Some(found) = found else {
            loading.missing = Some((base.to_owned(), name.to_owned()));
            return Err(Error::new_resolving(base, name));
        };
        if base != ENTRY {
            loading.imported.insert(found.to_owned());
        }
        Ok(found.to_owned())
    }
}

impl Loader for Among {
    fn load<'js>(&mut self, ctx: &Ctx<'js>, name: &str, _attributes: Option<ImportAttributes<'js>>) -> Result<Module<'js, Declared>> {
        let text = self.files.text(name).ok_or_else(|| Error::new_loading(name))?;
        self.loading.borrow_mut().last = Some(name.to_owned());
        Module::declare(ctx.clone(), name, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_places() {
        let files = Files(vec![("rules/a.ts".to_owned(), "one\n  two".to_owned()), ("rules/sub/b.ts".to_owned(), String::new())]);
        assert_eq!(files.resolve("rules/a.ts", "./sub/b.ts"), Some("rules/sub/b.ts"));
        assert_eq!(files.resolve("rules/a.ts", "./sub/b"), Some("rules/sub/b.ts"));
        assert_eq!(files.resolve("rules/sub/b.ts", "../a"), Some("rules/a.ts"));
        assert_eq!(files.resolve("rules/a.ts", "rules/sub/b.ts"), None);
        assert_eq!(files.resolve("rules/a.ts", "../../../etc/passwd"), None);
        assert_eq!(files.find("rules/a.ts", "two"), Some((2, 3)));
        assert_eq!(files.place("    at x (native)\n    at judge (rules/a.ts:3:7)\n"), Some(("rules/a.ts", (3, 7))));
        assert_eq!(files.place("    at my/rules/a.ts:3:7\n"), None);
    }
}
