//! `key=value` on the command line, as a tool's input.

use crate::command_error::CommandError;
use serde_json::{Map, Value};
use wire::ErrorCode;

const FIX: &str = "write key=value, key=@FILE or key:=JSON; `skep list tools` names each tool's keys";

/// The object that `--input` and the pairs make together.
pub fn read(base: Option<&str>, pairs: &[String]) -> Result<Value, CommandError> {
    let bad = |what: String| CommandError::new(ErrorCode::BadInput, what).fix(FIX);
    let mut input = match base.map(serde_json::from_str) {
        None => Map::new(),
        Some(Ok(Value::Object(map))) => map,
        Some(Ok(_)) => return Err(bad("`--input` is not a JSON object".into())),
        Some(Err(error)) => return Err(bad("`--input` is not JSON".into()).why(error)),
    };
    for pair in pairs {
        let (key, value) = pair.split_once('=').ok_or_else(|| bad(format!("`{pair}` is not key=value")))?;
        let (key, value) = match key.strip_suffix(':') {
            Some(key) => (key, serde_json::from_str(value).map_err(|error| bad(format!("`{pair}` is not JSON after `:=`")).why(error))?),
            None => (key, parse(key, value)?),
        };
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(bad(format!("`{pair}` has no key")));
        }
        if base.is_none() && input.contains_key(key) {
            return Err(bad(format!("`{key}` is given twice")));
        }
        input.insert(key.to_owned(), value);
    }
    Ok(Value::Object(input))
}

/// A key whose value looks like JSON and was taken as such, for the hint when that was not meant.
pub fn read_as_json<'a>(input: &Value, pairs: &'a [String]) -> Option<&'a str> {
    let keys = pairs.iter().filter_map(|pair| pair.split_once('=')).map(|(key, _)| key);
    keys.into_iter().find(|key| input.get(key).is_some_and(|value| !value.is_string()))
}

fn parse(key: &str, value: &str) -> Result<Value, CommandError> {
    if let Some(file) = value.strip_prefix('@') {
        return std::fs::read_to_string(file).map(Value::String).map_err(|error| {
            CommandError::new(ErrorCode::BadInput, format!("cannot read `{file}` for `{key}`"))
                .why(error)
                .fix(format!("name an existing text file; for a text that begins with @ write {key}:='\"@…\"'"))
        });
    }
    Ok(match serde_json::from_str(value) {
        Ok(json @ (Value::Array(_) | Value::Object(_) | Value::Number(_) | Value::Bool(_))) => json,
        _ => Value::String(value.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(base: Option<&str>, pairs: &[&str]) -> Result<Value, String> {
        let pairs: Vec<_> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
        read(base, &pairs).map_err(|error| error.what)
    }

    #[test]
    fn a_value_is_json_only_where_that_is_meant() {
        assert_eq!(
            check(None, &["path=a=b", "n=3", "b=true", "l=[\"x\"]", "o={\"k\":1}", "s=[x", "q=\"x\"", "nothing=null", "empty="]),
            Ok(
                json!({"path": "a=b", "n": 3, "b": true, "l": ["x"], "o": {"k": 1}, "s": "[x", "q": "\"x\"", "nothing": "null", "empty": ""})
            )
        );
        assert_eq!(check(None, &["s:=\"3\"", "n:=null"]), Ok(json!({"s": "3", "n": null})));
        assert_eq!(check(Some("{\"a\":1,\"b\":2}"), &["b=3"]), Ok(json!({"a": 1, "b": 3})));
    }

    #[test]
    fn a_file_is_read_where_an_at_sign_asks_for_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "text\n").unwrap();
        let pair = format!("content=@{}", file.path().display());
        assert_eq!(check(None, &[&pair]), Ok(json!({"content": "text\n"})));
        assert_eq!(check(None, &["c=@/nowhere"]), Err("cannot read `/nowhere` for `c`".into()));
    }

    #[test]
    fn a_number_that_may_be_meant_as_text_is_found() {
        let pairs = ["path=a".to_owned(), "content=1".to_owned()];
        assert_eq!(read_as_json(&read(None, &pairs).unwrap(), &pairs), Some("content"));
        assert_eq!(read_as_json(&read(None, &pairs[..1]).unwrap(), &pairs[..1]), None);
    }

    #[test]
    fn a_mistake_is_named() {
        assert_eq!(check(None, &["path"]), Err("`path` is not key=value".into()));
        assert_eq!(check(None, &["=x"]), Err("`=x` has no key".into()));
        assert_eq!(check(None, &["a=1", "a=2"]), Err("`a` is given twice".into()));
        assert_eq!(check(None, &["a:=x"]), Err("`a:=x` is not JSON after `:=`".into()));
        assert_eq!(check(Some("[]"), &[]), Err("`--input` is not a JSON object".into()));
        assert_eq!(check(Some("{"), &[]), Err("`--input` is not JSON".into()));
    }
}
