//! Every cheat that only the kernel can meet, played against it by each kind of brain, with its control.
//!
//! The cheats are data: `crates/testing/corpus/cheats.txt` says how each is played and what must be on record of it. Here is who plays them.

mod corpus;
mod kinds;
mod play;

use corpus::Cheat;
use kinds::BrainKind;
use std::collections::BTreeMap;
use std::process::ExitCode;
use testkit::harness::{self, Test};

fn main() -> ExitCode {
    if let Some(ended) = harness::child() {
        return ended;
    }
    let cheats = match corpus::read() {
        Ok(cheats) => cheats,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    let mut tests = vec![Test::new("every_cheat_for_the_kernel_has_its_play", every_cheat_is_played)];
    for kind in BrainKind::ALL {
        let played: Vec<&Cheat> = cheats.iter().filter(|cheat| !cheat.spares.contains_key(kind.as_str())).collect();
        // Many cheats are about the same honest work, which is done once.
        let mut controls: BTreeMap<String, Vec<Cheat>> = BTreeMap::new();
        for cheat in played {
            controls.entry(play::honest_story(cheat, kind)).or_default().push(cheat.clone());
            let (name, cheat) = (format!("{}::{}", cheat.name, kind.as_str()), cheat.clone());
            tests.push(Test::new(name, move || play::cheat(&cheat, kind)));
        }
        for of in controls.into_values() {
            let name = format!("control::{}::{}", of.first().map_or("", |cheat| &cheat.name), kind.as_str());
            tests.push(Test::new(name, move || play::control(&of, kind)));
        }
    }
    harness::main(&tests)
}

/// A cheat that is only described shows nothing: each is played by some kind of brain, and says why another has no part in it.
fn every_cheat_is_played() -> Result<(), String> {
    let cheats = corpus::read()?;
    if cheats.len() < 50 {
        return Err(format!("{} cheats are for the kernel", cheats.len()));
    }
    let wrong: Vec<String> = cheats.iter().filter_map(unplayed).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn unplayed(cheat: &Cheat) -> Option<String> {
    let name = &cheat.name;
    let unknown = cheat.spares.keys().find(|kind| !BrainKind::ALL.iter().any(|known| known.as_str() == kind.as_str()));
    match () {
        () if cheat.play.is_empty() => Some(format!("{name} has no play")),
        () if !cheat.play.iter().any(corpus::PlayLine::is_cheat) => Some(format!("nothing in the play of {name} is the cheat")),
        () if cheat.found.is_empty() => Some(format!("{name} does not say what must be found of it")),
        () if cheat.spares.len() == BrainKind::ALL.len() => Some(format!("nobody plays {name}")),
        () if cheat.spares.values().any(|why| why.len() < 10) => Some(format!("{name} does not say why it spares somebody")),
        () => unknown.map(|kind| format!("{name} spares `{kind}`, which is no kind of brain")),
    }
}
