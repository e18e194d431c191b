//! Who does the demo's task: the built-in brain, or a vendor's own client that is on the PATH.

use super::project;
use crate::command::setup;
use crate::command_error::CommandError;
use crate::show::Line;
use wire::{ErrorCode, Vendor};

/// The brain of the demo's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Performer {
    BuiltIn,
    Client(Vendor),
}

impl Performer {
    /// What `--brain` takes here.
    pub const NAMES: [&'static str; 5] = ["native", "claude", "codex", "opencode", "gemini"];

    /// Refuses a client that is not installed, before anything is made.
    pub fn find(name: &str) -> Result<Performer, CommandError> {
        let Some(vendor) = Vendor::of(name) else { return Ok(Performer::BuiltIn) };
        if setup::on_path(vendor.name()).is_none() {
            return Err(CommandError::new(ErrorCode::NotFound, format!("{} is not installed", vendor.product()))
                .why(format!("no program `{name}` is on your PATH"))
                .fix(format!("install it with `{}`, then run `skep demo --brain {name}` again", vendor.install_command())));
        }
        Ok(Performer::Client(vendor))
    }

    pub fn name(self) -> &'static str {
        match self {
            Performer::BuiltIn => "native",
            Performer::Client(vendor) => vendor.name(),
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Performer::BuiltIn => "the built-in brain",
            Performer::Client(vendor) => vendor.product(),
        }
    }

    /// What the scripted model answers it.
    pub fn model(self) -> &'static str {
        match self {
            Performer::BuiltIn => project::MODEL,
            Performer::Client(_) => project::CLIENT_MODEL,
        }
    }

    /// How to see the same task done by a vendor's client, for whoever has seen the built-in brain do it.
    pub fn second_act(self) -> Option<Line> {
        let Performer::BuiltIn = self else { return None };
        let installed = Vendor::ALL.into_iter().find(|vendor| setup::on_path(vendor.name()).is_some());
        Some(match installed {
            Some(vendor) => {
                Line::new().faint(format!("the same task by {}, on the scripted model: ", vendor.product())).name(command(vendor))
            }
            None => Line::new()
                .faint("the same task by a vendor's client, on the scripted model: ")
                .name(Vendor::Claude.install_command())
                .faint(", then ")
                .name(command(Vendor::Claude)),
        })
    }
}

fn command(vendor: Vendor) -> String {
    format!("skep demo --brain {}", vendor.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vendor_can_be_named() {
        let vendors = Vendor::ALL.map(Vendor::name);
        assert_eq!(Performer::NAMES[1..], vendors);
    }
}
