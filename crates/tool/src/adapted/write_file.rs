//! KarnEvil9's `write-file`: `fs.write`.

use super::Mapping;
use crate::manifest::Manifest;
use crate::permission::Permission;
use serde_json::{Value, json};
use world::Refusal;

#[derive(Debug)]
pub(super) struct WriteFile;

impl Mapping for WriteFile {
    fn worker(&self) -> &'static str {
        "fs.write"
    }

    fn needs(&self) -> Permission {
        Permission::Write
    }

    fn fields(&self) -> &'static [&'static str] {
        &["path", "content"]
    }

    fn output(&self, _manifest: &Manifest, value: &Value) -> Result<Value, Refusal> {
        Ok(json!({ "written": true, "bytes_written": value["bytes"] }))
    }
}
