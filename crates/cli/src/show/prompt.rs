//! A conversation as the prompt shows it: what the brain says as text, what it does as lines.
//!
//! Takes records one by one, as [`Transcript`] does, whose lines it shows for everything but words.

use super::markdown::Markdown;
use super::transcript::Transcript;
use super::{Line, Page};
use crate::record::ParsedRecord;
use std::collections::BTreeSet;
use wire::method::merge::APPLY_TOOL;
use wire::{CallId, Event};

/// The call by which a brain asks its model.
const MODEL_REQUEST: &str = "model.request";

/// What was printed last, so that words and acts stand apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Nothing,
    Words,
    Acts,
}

/// One task's story at the prompt.
#[derive(Debug)]
pub struct TurnStory {
    pub transcript: Transcript,
    markdown: Markdown,
    /// What the brain has said since it last did something.
    said: String,
    /// The beginning of a line whose end is still to come.
    unfinished: String,
    last: Last,
    /// Requests to models: they are not what the brain does, but how it thinks.
    thoughts: BTreeSet<CallId>,
}

impl TurnStory {
    pub fn new(colour: bool) -> TurnStory {
        let markdown = Markdown::new(colour);
        TurnStory {
            transcript: Transcript::default(),
            markdown,
            said: String::new(),
            unfinished: String::new(),
            last: Last::Nothing,
            thoughts: BTreeSet::new(),
        }
    }

    /// What this record adds.
    pub fn add(&mut self, record: &ParsedRecord) -> Page {
        let told = self.transcript.add(record);
        let mut page = Page::new();
        match &record.event {
            // What was typed stands there already, and a question is shown whole.
            Some(Event::TaskQueued(_) | Event::TaskContinued(_)) => {}
            Some(Event::CallAdmitted(e)) if e.tool == MODEL_REQUEST => drop(self.thoughts.insert(e.call)),
            Some(Event::CallFinished(e)) if self.thoughts.remove(&e.call) && e.ok => {}
            Some(Event::ReviewAsked(e)) if e.tool == APPLY_TOOL => self.finish_line(&mut page),
            Some(Event::BrainSaid(e)) => self.say(&e.text, &mut page),
            Some(Event::MergeProposed(e)) => self.answer(&e.summary, &mut page),
            Some(Event::TaskFinished(e)) => {
                self.answer(&e.summary, &mut page);
                page.blank();
                let took = self.transcript.took(record);
                page.push(Line::new().good("✓ ").plain("done").faint(took));
                self.last = Last::Acts;
            }
            _ if told.is_empty() => {}
            _ => {
                self.finish_line(&mut page);
                if self.last == Last::Words {
                    page.blank();
                }
                page.append(told);
                (self.last, self.said) = (Last::Acts, String::new());
            }
        }
        page
    }

    /// Words as they come. A piece that ends in a space is the beginning of a longer line.
    fn say(&mut self, text: &str, page: &mut Page) {
        self.said.push_str(text);
        self.said.push('\n');
        let whole = format!("{}{text}", std::mem::take(&mut self.unfinished));
        if whole.ends_with(' ') {
            self.unfinished = whole;
            return;
        }
        self.words(&whole, page);
    }

    fn finish_line(&mut self, page: &mut Page) {
        let rest = std::mem::take(&mut self.unfinished);
        if !rest.trim().is_empty() {
            self.words(rest.trim_end(), page);
        }
    }

    fn words(&mut self, text: &str, page: &mut Page) {
        let text = match self.last {
            Last::Words => text,
            Last::Nothing | Last::Acts => text.trim_start_matches('\n'),
        };
        if self.last != Last::Words {
            page.blank();
        }
        text.split('\n').for_each(|line| page.push(self.markdown.line(line, "")));
        self.last = Last::Words;
    }

    /// What of the answer was not said already.
    fn answer(&mut self, summary: &str, page: &mut Page) {
        self.finish_line(page);
        let rest = unsaid(summary, &self.said).trim();
        if !rest.is_empty() {
            self.words(rest, page);
        }
        self.said.clear();
    }
}

/// The end of an answer behind what was said of it; all of it where something else was said. Blanks do not count.
fn unsaid<'a>(answer: &'a str, said: &str) -> &'a str {
    let mut letters = answer.char_indices().filter(|(_, letter)| !letter.is_whitespace());
    let mut end = 0;
    for wanted in said.chars().filter(|letter| !letter.is_whitespace()) {
        match letters.next() {
            Some((at, letter)) if letter == wanted => end = at + letter.len_utf8(),
            // More was said than this answer: it is its end, or something else.
            None => return "",
            Some(_) if said.trim_end().ends_with(answer.trim()) => return "",
            Some(_) => return answer,
        }
    }
    &answer[end..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::line;
    use serde_json::json;
    use wire::event::*;
    use wire::{Pid, TaskId};

    fn told(events: Vec<Event>) -> String {
        let mut story = TurnStory::new(false);
        let mut page = Page::new();
        for (seq, event) in events.into_iter().enumerate() {
            page.append(story.add(&ParsedRecord::parse(&line(seq as u64, event)).unwrap()));
        }
        page.render(false, None)
    }

    fn said(text: &str) -> Event {
        BrainSaid { pid: Pid(3), task: Some(TaskId(1)), text: text.into() }.into()
    }

    fn done(summary: &str) -> Event {
        TaskFinished { pid: Pid(3), task: Some(TaskId(1)), summary: summary.into(), result: None }.into()
    }

    #[test]
    fn words_are_text_and_acts_are_lines() {
        let read = CallFinished {
            pid: Pid(3),
            task: Some(TaskId(1)),
            call: CallId(1),
            ok: true,
            output: json!({}),
            blob: None,
            blob_bytes: 0,
            ms: 3,
        };
        let text = told(vec![said("I look first."), read.into(), said("It is **fine**."), said("\n- a"), done("It is **fine**.\n\n- a")]);
        assert_eq!(text, "\nI look first.\n\n  ✓ call-1 (3ms)\n\nIt is **fine**.\n\n- a\n\n✓ done\n");
    }

    #[test]
    fn an_answer_is_told_once() {
        assert_eq!(told(vec![said("one"), done("one\ntwo")]), "\none\ntwo\n\n✓ done\n");
        assert_eq!(told(vec![done("only here")]), "\nonly here\n\n✓ done\n");
        assert_eq!(told(vec![said("thinking aloud"), done("the answer")]), "\nthinking aloud\nthe answer\n\n✓ done\n");
        assert_eq!(told(vec![said("first, then the answer"), done("the answer")]), "\nfirst, then the answer\n\n✓ done\n");
    }

    #[test]
    fn a_long_line_that_came_in_pieces_is_one_line() {
        assert_eq!(told(vec![said("one "), said("two "), said("three"), done("one two three")]), "\none two three\n\n✓ done\n");
        assert_eq!(told(vec![said("one "), done("one two")]), "\none\ntwo\n\n✓ done\n");
    }
}
