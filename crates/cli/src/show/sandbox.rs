//! Templates, and rooms that are open.

use super::measure::{bytes, duration_ms, plural};
use super::{Line, Page, table};
use wire::method::sandbox::{SandboxListResult, SandboxTemplatesResult, TemplateNetwork, TemplateView};

pub fn templates(result: &SandboxTemplatesResult) -> Page {
    let head = ["template", "network", "memory", "cpu", "pids", "time", "profile"].map(|word| Line::new().faint(word)).to_vec();
    let mut page = table(std::iter::once(head).chain(result.templates.iter().map(row)).collect());
    page.push(disks(&result.templates));
    for template in &result.templates {
        if let Some(hosts) = &template.hosts {
            page.push(Line::new().name(&template.name).faint(" reaches only ").plain(hosts.join(", ")));
        }
        if let Some(runtime) = &template.runtime {
            page.push(Line::new().name(&template.name).faint(" runs in ").plain(runtime));
        }
    }
    page
}

fn row(template: &TemplateView) -> Vec<Line> {
    let time = match (template.duration_ms, template.answer_ms) {
        (Some(ms), _) => duration_ms(ms),
        (None, Some(ms)) => duration_ms(ms),
        (None, None) => "its call's".to_owned(),
    };
    let cpu = template.cpu_milli.map_or("all".to_owned(), |milli| format!("{}", f64::from(milli) / 1000.0));
    vec![
        Line::new().name(&template.name),
        match template.network {
            TemplateNetwork::None => Line::new().faint("none"),
            TemplateNetwork::Restricted => Line::new().wait("restricted"),
        },
        Line::new().plain(template.memory_bytes.map_or("half".to_owned(), memory)),
        Line::new().plain(cpu),
        Line::new().plain(template.pids.to_string()),
        Line::new().plain(time),
        Line::new().plain(&template.profile),
    ]
}

/// What each may write: one figure where all have the same, so that the table fits 80 columns.
fn disks(templates: &[TemplateView]) -> Line {
    let disk = |template: &TemplateView| template.disk_bytes.map_or("any".to_owned(), |size| format!("{} GiB", size >> 30));
    let first = templates.first().map(&disk);
    let figures = match templates.iter().map(&disk).all(|other| Some(other) == first) {
        true => format!("{} each", first.unwrap_or_default()),
        false => templates.iter().map(|template| format!("{} {}", template.name, disk(template))).collect::<Vec<_>>().join(", "),
    };
    Line::new().faint("disk: ").plain(figures)
}

fn memory(size: u64) -> String {
    match size >> 20 {
        mib if mib >= 1024 && mib % 1024 == 0 => format!("{} GiB", mib >> 10),
        mib => format!("{mib} MiB"),
    }
}

pub fn rooms(result: &SandboxListResult) -> Page {
    let mut page = Page::new();
    if result.rooms.is_empty() {
        page.push(Line::new().faint("no sandbox is open"));
    }
    for room in &result.rooms {
        let mark = if room.paused { Line::new().wait("◍ ") } else { Line::new().good("● ") };
        let state = if room.paused { "  paused" } else { "" };
        page.push(mark.name(room.task.to_string()).faint(format!("  p{}  ", room.pid.0)).plain(&room.project).wait(state));
        for job in &room.jobs {
            let uses = format!(
                "  {}, {} cpu, {}, for {}",
                bytes(job.memory_bytes),
                duration_ms(job.cpu_ms),
                plural(job.processes, "process"),
                duration_ms(job.age_ms)
            );
            page.push(Line::new().faint("  └─ ").plain(job.command.join(" ")).faint(uses));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::method::sandbox::{JobView, SandboxView};

    #[test]
    fn templates_fit_a_terminal_of_eighty_columns() {
        let template = |name: &str, disk: u64| {
            serde_json::from_value(serde_json::json!({
                "name": name, "network": "restricted", "memory_bytes": 1u64 << 30, "cpu_milli": 250, "pids": 1024, "duration_ms": null,
                "answer_ms": null, "disk_bytes": disk << 30, "disk_files": 1, "secrets": false, "profile": "standard-net", "hosts": null, "runtime": null,
            }))
            .unwrap()
        };
        let text = |templates: Vec<TemplateView>| super::templates(&SandboxTemplatesResult { templates }).render(false, None);
        let same = text(vec![template("integration-test", 16), template("default", 16)]);
        assert!(same.lines().all(|line| line.chars().count() <= 80) && same.ends_with("\ndisk: 16 GiB each\n"), "{same}");
        assert!(same.contains("1 GiB"), "{same}");
        assert!(text(vec![template("a", 16), template("b", 2)]).ends_with("\ndisk: a 16 GiB, b 2 GiB\n"));
    }

    #[test]
    fn a_room_and_its_job() {
        let job = JobView {
            os_pid: 7,
            command: vec!["cargo".into(), "test\x1b[2J".into()],
            age_ms: 65_000,
            memory_bytes: 52_000_000,
            cpu_ms: 1_200,
            processes: 3,
        };
        let room = SandboxView { task: "task-3".parse().unwrap(), pid: wire::Pid(4), project: "/p".into(), paused: true, jobs: vec![job] };
        let text = rooms(&SandboxListResult { rooms: vec![room] }).render(false, None);
        assert!(text.starts_with("◍ task-3  p4  /p  paused\n  └─ cargo test\\x1b[2J  52"), "{text}");
        assert_eq!(rooms(&SandboxListResult { rooms: vec![] }).render(false, None), "no sandbox is open\n");
    }
}
