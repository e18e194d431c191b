//! TypeScript to JavaScript: types become blanks, so that every line and column stays where it was.

use std::sync::Arc;

use parking_lot::Mutex;
use swc_common::errors::{DiagnosticBuilder, Emitter, Handler, Level};
use swc_common::{FileName, SourceMap, Span};
use swc_ts_fast_strip::{Mode, Options, operate};

use crate::fault::Flaw;

/// The file as JavaScript, or its first error. What needs more than stripping (enums, namespaces) is an error.
pub(super) fn strip(file: &str, text: &str) -> Result<String, Flaw> {
    let map = swc_common::sync::Lrc::new(SourceMap::default());
    let heard = Heard::default();
    let handler = Handler::with_emitter(false, false, Box::new(heard.clone()));
    let options = Options { module: Some(true), filename: Some(file.to_owned()), mode: Mode::StripOnly, ..Options::default() };
    let stripped = operate(&map, &handler, text.to_owned(), options);
    let told = heard.0.lock().take();
    match (stripped, told) {
        (Ok(output), None) => Ok(output.code),
        (_, Some((span, what))) => Err(flaw(file, &map, span, what)),
        (Err(error), None) => Err(Flaw::new(file, None, error.message)),
    }
}

fn flaw(file: &str, map: &SourceMap, span: Option<Span>, what: String) -> Flaw {
    let at = span.filter(|span| !span.is_dummy()).map(|span| map.lookup_char_pos(span.lo()));
    let at = at.filter(|at| matches!(&*at.file.name, FileName::Real(_)));
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Flaw::new(file, at.map(|at| (number(at.line), number(at.col.0 + 1))), what)
}

/// What was told, and about which piece of the text.
type Told = (Option<Span>, String);

/// The first error that was told.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Option<Told>>>);

impl Emitter for Heard {
    fn emit(&mut self, told: &mut DiagnosticBuilder<'_>) {
        if matches!(told.level, Level::Bug | Level::Fatal | Level::PhaseFatal | Level::Error) {
            self.0.lock().get_or_insert_with(|| (told.span.primary_span(), told.message()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, wanted: Result<&str, (u32, u32)>) {
        match (strip("a.ts", text), wanted) {
            (Ok(code), Ok(wanted)) => assert_eq!(code, wanted),
            (Err(flaw), Err(at)) => assert_eq!(flaw.at, Some(at), "{flaw}"),
            (got, wanted) => panic!("{got:?} instead of {wanted:?}"),
        }
    }

    #[test]
    fn types_become_blanks_and_errors_have_their_place() {
        check("const a: number = 1;", Ok("const a         = 1;"));
        check("const a = ;", Err((1, 11)));
        check("const a: string = 'ä'\nlet b = 1 +;\n", Err((2, 12)));
        check("export const a = 1;\nenum Colour { Red }\n", Err((2, 1)));
    }
}
