//! KarnEvil9's `read-file`: `fs.read`, whole or not at all.

use super::{Mapping, too_long};
use crate::manifest::Manifest;
use crate::permission::Permission;
use serde_json::{Value, json};
use world::Refusal;

#[derive(Debug)]
pub(super) struct ReadFile;

impl Mapping for ReadFile {
    fn worker(&self) -> &'static str {
        "fs.read"
    }

    fn needs(&self) -> Permission {
        Permission::Read
    }

    fn fields(&self) -> &'static [&'static str] {
        &["path"]
    }

    fn output(&self, manifest: &Manifest, value: &Value) -> Result<Value, Refusal> {
        if value["truncated"] == true {
            return Err(too_long("the file", manifest, self.worker()));
        }
        Ok(json!({ "content": value["content"], "exists": true, "size_bytes": value["size"] }))
    }

    fn absence(&self) -> Option<Value> {
        Some(json!({ "content": "", "exists": false, "size_bytes": 0 }))
    }
}
