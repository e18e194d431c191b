//! A play as a scenario, and what its journal must and must not tell.

use crate::corpus::{BrainAct, Cheat, PlayLine, PlayedBy};
use crate::kinds::BrainKind;

/// The project that plays are about: a program, and a trusted command that runs whatever tests there are.
const GIVEN: &str = r#"file src/two.sh echo 1
file check.sh echo TAP version 13; n=0; bad=0\nfor t in tests/*_test.sh; do [ -e "$t" ] || continue; n=$((n+1)); if sh "$t"; then echo "ok $n - $t"; else echo "not ok $n - $t"; bad=1; fi; done\necho 1..$n\nexit $bad
test sh check.sh
discipline strict
"#;

/// People who agree, and what the project holds then.
const AGREED: &str = "human allow\nshow src/two.sh\n";
const DONE: &str = "src/two.sh: echo 2";

/// One of the two that play: whoever cheats, or the honest one.
struct Played<'a> {
    cheat: &'a Cheat,
    kind: BrainKind,
    left_out: PlayedBy,
}

impl Played<'_> {
    fn given(&self) -> impl Iterator<Item = &str> {
        self.cheat.play.iter().filter_map(|line| if let PlayLine::Given(given) = line { Some(given.as_str()) } else { None })
    }

    fn acts(&self) -> Vec<&BrainAct> {
        let act = |line| match line {
            &PlayLine::Act { ref act, by } if by != self.left_out => Some(act),
            _ => None,
        };
        self.cheat.play.iter().filter_map(act).collect()
    }

    fn people(&self) -> String {
        let does = |line| match line {
            &PlayLine::People { ref does, by } if by != self.left_out => Some(format!("{does}\n")),
            _ => None,
        };
        self.cheat.play.iter().filter_map(does).collect()
    }

    fn story(&self) -> String {
        let mut story = GIVEN.to_owned();
        if !self.given().any(|line| line.starts_with("rule ")) {
            story.push_str("rule allow *\n");
        }
        self.given().for_each(|line| story.push_str(&format!("{line}\n")));
        story.push_str(&self.kind.lines(&self.acts()));
        let people = self.people();
        story + if people.is_empty() { AGREED } else { &people }
    }

    fn journal(&self) -> Result<String, String> {
        let story = self.story();
        let journal = testkit::scenario::tell(&story).map_err(|why| format!("{why}\n{story}"))?;
        println!("{journal}");
        if self.people().is_empty() && !journal.lines().any(|line| line == DONE) {
            return Err(format!("the honest work did not go in\n{journal}"));
        }
        Ok(journal)
    }
}

/// Does some line of the journal say this? The first word is the kind of the record.
fn tells(journal: &str, found: &str) -> bool {
    let (kind, what) = found.split_once(' ').unwrap_or((found, ""));
    journal.lines().any(|line| line.split_whitespace().nth(1) == Some(kind) && line.contains(what))
}

/// The cheat: all that must be found of it is on record, and the honest work goes in all the same, where people agree to it.
pub fn cheat(cheat: &Cheat, kind: BrainKind) -> Result<(), String> {
    let journal = Played { cheat, kind, left_out: PlayedBy::Control }.journal()?;
    let missing: Vec<&str> = cheat.found.iter().map(String::as_str).filter(|found| !tells(&journal, found)).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("not on record: {}\n{journal}", missing.join("\n   "))) }
}

/// What the honest one does.
pub fn honest_story(cheat: &Cheat, kind: BrainKind) -> String {
    Played { cheat, kind, left_out: PlayedBy::Cheat }.story()
}

/// The control of cheats that have the same one: the work without the cheat goes in, and nothing of them is found.
pub fn control(cheats: &[Cheat], kind: BrainKind) -> Result<(), String> {
    let Some(cheat) = cheats.first() else { return Ok(()) };
    let journal = Played { cheat, kind, left_out: PlayedBy::Cheat }.journal()?;
    for cheat in cheats {
        if let Some(found) = cheat.found.iter().find(|found| tells(&journal, found)) {
            return Err(format!("{}, found of honest work: {found}\n{journal}", cheat.name));
        }
    }
    if tells(&journal, "merge.finished") { Ok(()) } else { Err(format!("the honest work did not go in\n{journal}")) }
}
