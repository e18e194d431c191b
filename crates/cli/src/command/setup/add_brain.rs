//! Adds a client's program, or a name for a brain, to `config.yml`, as carefully as `skep setup` adds providers.

use super::config::{self, ConfigAdditions, ConfigEdit};
use super::{broken, read, rejected, restore, write_private};
use crate::command_error::CommandError;
use crate::console::Console;
use crate::show::{Line, Page, Tone};
use wire::ErrorCode;

/// Shows what it would write, asks, writes; `false` where nothing was written.
pub async fn add_brain(name: &str, command: &[String], alias: Option<&str>, yes: bool, console: &Console) -> Result<bool, CommandError> {
    let file = console.home.join("config.yml");
    let current = read(&file)?;
    if config::entry(&current, "brains", name).map_err(|why| broken(&file, &why))?.is_some() {
        return Err(CommandError::new(ErrorCode::WrongState, format!("`{name}` stands in `brains` of config.yml already"))
            .fix(format!("change it there: {}", file.display())));
    }
    let additions = ConfigAdditions::default().brain(name, command, alias);
    let text = match config::merge(&current, &additions).map_err(|why| broken(&file, &why))? {
        ConfigEdit::Text(text) => text,
        ConfigEdit::Same => return Ok(false),
        ConfigEdit::ByHand => {
            return Err(CommandError::new(ErrorCode::BadInput, format!("`{}` cannot be added to", file.display()))
                .why("its `brains` stand in one line")
                .fix(format!("add this by hand:\n{}", additions.text(""))));
        }
    };
    let mut page = Page(vec![Line::new().plain("would be added to ").name(file.display().to_string()).plain(":")]);
    page.block("    ", Tone::Name, additions.text(&current).trim_end());
    if console.json && !yes {
        console.out.json(&serde_json::json!({ "config": file, "adds": additions.text(&current), "written": false }));
        return Ok(false);
    }
    if !console.json {
        console.out.wrapped(&page);
    }
    if !yes && !console.confirm("write this?", "--yes")? {
        console.note(Line::new().faint("nothing was written"));
        return Ok(false);
    }
    write_private(&file, &text)?;
    if let Some(why) = rejected(console).await? {
        restore(&file, &current)?;
        return Err(CommandError::new(ErrorCode::BadInput, "the kernel does not take what was to be written")
            .why(why)
            .fix("config.yml is as it was before; see `skep brain add --help`"));
    }
    Ok(true)
}
