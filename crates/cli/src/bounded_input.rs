//! Files and stdin, read no further than the kernel would take what they hold.

use crate::command_error::CommandError;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use wire::ErrorCode;

/// What a file holds, or stdin where none is named.
pub fn read(file: Option<&Path>, bytes_max: usize) -> Result<Vec<u8>, CommandError> {
    match file {
        Some(path) => bounded(File::open(path), &format!("`{}`", path.display()), bytes_max),
        None => bounded(Ok(io::stdin()), "stdin", bytes_max),
    }
}

fn bounded(from: io::Result<impl Read>, name: &str, bytes_max: usize) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    from.and_then(|from| from.take(bytes_max as u64 + 1).read_to_end(&mut bytes)).map_err(|error| {
        CommandError::new(ErrorCode::NotFound, format!("cannot read {name}")).why(error).fix("name a file that you can read")
    })?;
    if bytes.len() > bytes_max {
        let fix = format!("give at most {bytes_max} bytes");
        return Err(CommandError::new(ErrorCode::TooLarge, format!("{name} is too long")).why("it has more than may be sent").fix(fix));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_read_to_its_limit() {
        assert_eq!(bounded(Ok(&b"abc"[..]), "x", 3).unwrap(), b"abc");
        assert_eq!(bounded(Ok(&b"abcd"[..]), "x", 3).unwrap_err().code, ErrorCode::TooLarge);
        assert_eq!(read(Some(Path::new("/dev/zero")), 64).unwrap_err().code, ErrorCode::TooLarge);
        assert_eq!(read(Some(Path::new("/no/such/file")), 64).unwrap_err().code, ErrorCode::NotFound);
    }
}
