//! The one printer: everything `skep` says is built from lines, trees and tables and becomes bytes here.
//!
//! **Invariant.** No text reaches a terminal without [`visible()`]: a [`Line`] cleans what it is given, so a file name or a brain's
//! words cannot move the cursor, set the clipboard or turn the reading direction.

pub mod artifact;
pub mod brain;
pub mod call;
pub mod cassette;
pub mod config;
pub mod cron;
pub mod describe;
pub mod diff;
pub mod discipline;
pub mod grant;
pub mod inbox;
pub mod journal;
pub mod kernel;
pub mod line;
pub mod log;
pub mod markdown;
pub mod measure;
pub mod memory;
pub mod message;
pub mod model;
pub mod pager;
pub mod plan;
pub mod policy;
pub mod process;
pub mod program;
pub mod progress;
pub mod prompt;
pub mod queue;
pub mod record_line;
pub mod review;
pub mod sandbox;
pub mod screen;
pub mod session;
pub mod setup;
pub mod site;
pub mod skill;
pub mod spending;
pub mod table;
pub mod task;
pub mod top;
pub mod transcript;
pub mod tree;
pub mod verify;
pub mod visible;
pub mod work;
pub mod zone;

pub use line::{Line, Page, Tone};
pub use screen::{ColourChoice, Screen, before_end};
pub use table::{table, table_wrapped};
pub use tree::{Node, tree};
pub use visible::visible;
