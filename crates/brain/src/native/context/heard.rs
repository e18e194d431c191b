//! What a person says to a task after its prompt, as turns of its conversation.
//!
//! **Invariant.** Each is heard once, also after a crash: the checkpoint says how many were.

use super::Conversation;
use dialect::{Speaker, Turn, TurnPart};

impl Conversation {
    /// All that a person said after the task; what is among the turns already is not said twice.
    pub fn expect(&mut self, mut prompts: Vec<String>) {
        self.unheard = prompts.split_off(self.heard.min(prompts.len()));
    }

    /// Adds what was not heard yet, if there is any, as the person's turn: behind the results, where those come last.
    pub fn hear(&mut self) -> bool {
        let said = std::mem::take(&mut self.unheard);
        if said.is_empty() {
            return false;
        }
        self.heard += said.len();
        let parts = said.into_iter().map(TurnPart::Text);
        let is_kept = self.kept == self.turns.len();
        match self.turns.last_mut().filter(|turn| turn.speaker == Speaker::User) {
            Some(turn) => {
                turn.parts.extend(parts);
                // A turn that was kept already is another one now.
                self.is_rewritten |= is_kept;
            }
            None => self.turns.push(Turn { speaker: Speaker::User, parts: parts.collect() }),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::worked;
    use super::*;

    #[test]
    fn what_a_person_says_later_is_heard_once_and_never_beside_another_turn_of_theirs() {
        let mut talk = worked(1, 10);
        talk.turns.push(Turn { speaker: Speaker::Model, parts: vec![TurnPart::Text("done".into())] });
        let mut memory = vec![talk.checkpoint().unwrap().bytes];
        let taken_up = |memory: &[Vec<u8>], prompts: &[&str]| {
            let mut back = Conversation::new("a task".into(), Vec::new());
            back.recall(memory).unwrap();
            back.expect(prompts.iter().map(|prompt| (*prompt).to_owned()).collect());
            back
        };
        let mut back = taken_up(&memory, &["also b"]);
        assert!(back.hear() && !back.hear());
        assert_eq!(back.turns.last().unwrap().text(), "also b");
        memory.push(back.checkpoint().unwrap().bytes);
        // After a crash it is not said again; a further one comes with it, in one turn.
        assert!(!taken_up(&memory, &["also b"]).hear());
        let mut back = taken_up(&memory, &["also b", "and c"]);
        assert!(back.hear());
        assert_eq!(back.turns.len(), 4);
        assert!(back.checkpoint().unwrap().replaces_all, "the turn that was kept is another one");
        // Said before the brain spoke at all: it stands with the task.
        let mut early = Conversation::new("a task".into(), Vec::new());
        early.expect(vec!["and more".into()]);
        assert!(early.hear());
        let shown = early.shown();
        assert_eq!((shown.len(), shown[0].text().as_str()), (1, "a task\n\nand more"));
    }
}
