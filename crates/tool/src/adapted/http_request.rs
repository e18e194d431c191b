//! KarnEvil9's `runner: http`: `http.request`, to what the manifest's permissions name.

use super::{Mapping, too_long};
use crate::manifest::Manifest;
use crate::permission::{Permission, Permissions};
use serde_json::{Map, Value, json};
use world::{Code, Refusal};

/// The longest time that `http.request` takes in its input.
const HTTP_MS_MAX: u64 = 300_000;

#[derive(Debug)]
pub(super) struct AdaptedHttpRequest;

impl Mapping for AdaptedHttpRequest {
    fn worker(&self) -> &'static str {
        "http.request"
    }

    fn needs(&self) -> Permission {
        Permission::Network("*".to_owned())
    }

    fn fields(&self) -> &'static [&'static str] {
        &["url", "method", "headers", "body"]
    }

    fn complete(&self, manifest: &Manifest, fields: &mut Map<String, Value>) -> Result<(), Refusal> {
        let url = fields.get("url").and_then(Value::as_str).unwrap_or_default();
        Permissions::of(manifest).map_err(|why| Refusal::new(Code::Denied, why))?.allow_url(&manifest.name, url)?;
        fields.insert("timeout_ms".to_owned(), manifest.timeout_ms.min(HTTP_MS_MAX).into());
        Ok(())
    }

    fn output(&self, manifest: &Manifest, value: &Value) -> Result<Value, Refusal> {
        if value["truncated"] == true {
            return Err(too_long("the answer", manifest, self.worker()));
        }
        if value["encoding"] != "utf-8" {
            let reason = format!("the answer is not text, and `{}` gives only text", manifest.name);
            return Err(Refusal::new(Code::Unsupported, reason).hint("use `http.request`, which gives it as base64"));
        }
        Ok(json!({ "status": value["status"], "body": value["body"], "headers": value["headers"] }))
    }
}
