//! Skills: what the roles of a project know.

use super::{Line, Page, table};
use wire::method::skill::SkillListResult;

pub fn list(result: &SkillListResult) -> Page {
    if result.skills.is_empty() {
        let mut page = Page(vec![Line::new().faint("no role of this repository knows a skill")]);
        page.because("fix", "write .skep/roles/ROLE/skills/SKILL.md, then `skep trust`; `skep help roles` explains it");
        return page;
    }
    let row = |view: &wire::method::skill::SkillView| {
        let about = if view.about.is_empty() { Line::new() } else { Line::new().plain(&view.about).plain("; ") };
        vec![
            Line::new().name(&view.skill),
            Line::new().strong(view.role.as_deref().unwrap_or("worker")),
            Line::new().plain(&view.kind),
            about.faint(&view.takes),
        ]
    };
    table(result.skills.iter().map(row).collect())
}
