//! What critics found, in a bounded form: it goes to planners and onto terminals, and quotes what a planner wrote.

use world::PlanFinding;

/// Findings of one look at a plan. A planner that got everything wrong need not be told ten thousand times.
pub const FINDINGS_MAX: usize = 50;
/// Characters of a message and of a place.
const MESSAGE_MAX: usize = 500;
const PLACE_MAX: usize = 200;
/// Characters of a foreign word that a message quotes.
const QUOTED_MAX: usize = 64;

pub(crate) fn blocking(critic: &str, at: impl Into<String>, message: impl Into<String>) -> PlanFinding {
    PlanFinding { critic: critic.to_owned(), at: plain(at.into(), PLACE_MAX), message: plain(message.into(), MESSAGE_MAX), blocks: true }
}

/// A text of ours that may quote others in places where nobody thought of it.
fn plain(text: String, max: usize) -> String {
    if text.len() <= max && !text.chars().any(is_unseen) {
        return text;
    }
    let mut plain: String = text.chars().take(max).map(|letter| if is_unseen(letter) { '\u{fffd}' } else { letter }).collect();
    if text.chars().nth(max).is_some() {
        plain.push('…');
    }
    plain
}

/// The first [`FINDINGS_MAX`], and how many there are beside them.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    kept: Vec<PlanFinding>,
    more: usize,
    more_block: bool,
}

impl Findings {
    pub(crate) fn add(&mut self, finding: PlanFinding) {
        if self.kept.len() < FINDINGS_MAX {
            self.kept.push(finding);
        } else {
            self.more += 1;
            self.more_block |= finding.blocks;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub(crate) fn into_vec(mut self) -> Vec<PlanFinding> {
        if let (more @ 1.., Some(last)) = (self.more, self.kept.last()) {
            let message = format!("{more} further findings are not listed");
            self.kept.push(PlanFinding { critic: last.critic.clone(), at: String::new(), message, blocks: self.more_block });
        }
        self.kept
    }
}

/// A foreign word as a message quotes it: bounded, and with what no reader sees as escapes.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (count, letter) in text.chars().enumerate() {
        if count == QUOTED_MAX {
            shown.push('…');
            break;
        }
        if is_unseen(letter) || letter == '`' { shown.extend(letter.escape_unicode()) } else { shown.push(letter) }
    }
    shown
}

/// A character that joins others or chooses how one is drawn: nothing of it is seen by itself, and names that differ by one look alike. Prose may have it.
pub(crate) fn is_joiner(letter: char) -> bool {
    matches!(letter, '\u{180b}'..='\u{180f}' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

/// A character that a terminal obeys or a reader does not see, line breaks and tabs among them.
pub(crate) fn is_unseen(letter: char) -> bool {
    let directions = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}');
    let nothing =
        matches!(letter, '\u{ad}' | '\u{34f}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}');
    // Letters that have no picture: fillers of scripts that take the place of a letter.
    let fillers = matches!(letter, '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}');
    let lines = matches!(letter, '\u{2028}' | '\u{2029}');
    letter.is_control() || directions || nothing || fillers || lines || matches!(letter, '\u{e0000}'..='\u{e0fff}')
}
