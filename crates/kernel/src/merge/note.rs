//! What a task's summary says of its proposals.

pub(super) fn with_note(summary: &str, note: &str) -> String {
    if summary.is_empty() { note.to_owned() } else { format!("{summary} ({note})") }
}

/// A summary without what was noted of earlier proposals: that is over when the changes are proposed again.
pub(crate) fn without_notes(summary: &str) -> &str {
    const NOTES: [&str; 2] = ["changes rejected by ", "not merged: "];
    let mut rest = summary;
    loop {
        if NOTES.iter().any(|note| rest.starts_with(note)) {
            return "";
        }
        let noted = NOTES.iter().filter_map(|note| rest.rfind(&format!(" ({note}"))).max();
        match noted.filter(|_| rest.ends_with(')')) {
            Some(at) => rest = &rest[..at],
            None => return rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_of_an_earlier_proposal_goes() {
        let noted = with_note(&with_note("did it (well)", "changes rejected by ann"), "not merged: `a` (moved)");
        assert_eq!((without_notes(&noted), without_notes("did it (well)")), ("did it (well)", "did it (well)"));
        assert_eq!((without_notes(&with_note("", "changes rejected by ann")), without_notes("")), ("", ""));
    }
}
