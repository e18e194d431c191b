//! Templates: named bounds of a job.
//!
//! The built-in ones carry seed 003's figures. Others are made from them, by whoever may: [`Template::wider_than`] tells a
//! narrower one from a wider one, field by field, and the kernel lets only the operator's own configuration be wider.
//!
//! **Invariant.** A job's bounds are its template's or less: [`Template::bound`] takes the smaller of what the caller wants and
//! what the template has. It does not know who asks, nor which hosts a policy allows.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::spec::{JobSpec, Limits, Profile};

/// What a room reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// Its own loopback.
    #[default]
    None,
    /// The kernel's proxy too, which decides about each host.
    Restricted,
}

impl Network {
    pub fn as_str(self) -> &'static str {
        match self {
            Network::None => "none",
            Network::Restricted => "restricted",
        }
    }
}

/// Named bounds. `None` is no bound of the template's own, save for memory, where it is half of the machine's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    pub name: String,
    pub network: Network,
    /// The only hosts a restricted network may lead to, whatever else a policy allows. `None` leaves it to the policy.
    pub hosts: Option<Vec<String>>,
    /// May variables that stand for secrets be passed in?
    pub secrets: bool,
    /// Has it a door to the model gateway?
    pub models: bool,
    pub memory_bytes: Option<u64>,
    /// Thousandths of one processor.
    pub cpu_milli: Option<u32>,
    pub pids: u32,
    /// From start to end of a job.
    pub wall: Option<Duration>,
    /// For one answer of a child that lives on: a limit on its life would end it in the middle of a later question.
    pub answer: Option<Duration>,
    /// What jobs may write to the workspace in all, and how many files and folders that may be.
    pub disk_bytes: Option<u64>,
    pub disk_files: Option<u64>,
    pub profile: Profile,
}

/// Of a template that names none. Half of what a small laptop has free, and a build of a large project.
pub const DISK_BYTES: u64 = 16 << 30;
/// Two large `node_modules` and a cargo target.
pub const DISK_FILES: u64 = 1_000_000;

/// The package registries of everyday languages, which `install` may reach and nothing else.
pub const REGISTRIES: &[&str] = &[
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "pypi.org",
    "files.pythonhosted.org",
    "index.crates.io",
    "static.crates.io",
    "crates.io",
    "proxy.golang.org",
    "sum.golang.org",
    "rubygems.org",
    "repo.maven.apache.org",
    "repo1.maven.org",
    "repo.packagist.org",
    "deb.debian.org",
];

impl Template {
    /// What `shell.run` and `test.run` get when nothing else is said: bounds that don't hurt.
    pub const DEFAULT: &str = "default";

    fn new(name: &str, network: Network, memory_mib: u64, cpu_milli: u32, pids: u32, profile: Profile) -> Template {
        Template {
            name: name.to_owned(),
            network,
            hosts: None,
            secrets: false,
            models: false,
            memory_bytes: Some(memory_mib << 20),
            cpu_milli: Some(cpu_milli),
            pids,
            wall: None,
            answer: None,
            disk_bytes: Some(DISK_BYTES),
            disk_files: Some(DISK_FILES),
            profile,
        }
    }

    /// Every template that is part of Skep.
    pub fn built_in() -> Vec<Template> {
        let seconds = |n| Some(Duration::from_secs(n));
        let open = Template { memory_bytes: None, cpu_milli: None, ..Template::new("", Network::None, 0, 0, 1024, Profile::StandardNet) };
        let registries = REGISTRIES.iter().map(|host| (*host).to_owned()).collect();
        vec![
            Template { name: Template::DEFAULT.to_owned(), ..open.clone() },
            // Seed 003.
            Template {
                wall: seconds(120),
                secrets: true,
                models: true,
                ..Template::new("ai-provider", Network::Restricted, 256, 500, 10, Profile::Strict)
            },
            Template { wall: seconds(300), ..Template::new("code-executor", Network::None, 1024, 1000, 100, Profile::Standard) },
            Template {
                answer: Some(Duration::from_millis(100)),
                ..Template::new("policy-sandbox", Network::None, 128, 250, 5, Profile::Strict)
            },
            Template {
                wall: seconds(300),
                secrets: true,
                ..Template::new("integration-test", Network::Restricted, 1024, 1000, 100, Profile::StandardNet)
            },
            // A vendor's program with hands of its own: it lives as long as its task, and its network is the model gateway's.
            Template { name: "brain".to_owned(), network: Network::Restricted, secrets: true, models: true, ..open.clone() },
            // Scripts of packages run here, so there is nothing for them to take along.
            Template {
                name: "install".to_owned(),
                network: Network::Restricted,
                hosts: Some(registries),
                wall: seconds(900),
                pids: 512,
                ..open
            },
        ]
    }

    /// The first field in which this allows more than `other`, in the words of a configuration file.
    pub fn wider_than(&self, other: &Template) -> Option<&'static str> {
        /// No bound is wider than any.
        fn more<T: PartialOrd>(mine: Option<T>, theirs: Option<T>) -> bool {
            theirs.is_some_and(|theirs| mine.is_none_or(|mine| mine > theirs))
        }
        let hosts = match (&self.hosts, &other.hosts) {
            (_, None) => false,
            (None, Some(_)) => self.network == Network::Restricted,
            (Some(mine), Some(theirs)) => mine.iter().any(|host| !theirs.contains(host)),
        };
        let wider = [
            (self.network > other.network, "network"),
            (hosts, "hosts"),
            (self.secrets && !other.secrets, "secrets"),
            (self.models && !other.models, "models"),
            (more(self.memory_bytes, other.memory_bytes), "memory"),
            (more(self.cpu_milli, other.cpu_milli), "cpu"),
            (self.pids > other.pids, "pids"),
            (more(self.wall, other.wall), "duration"),
            (more(self.answer, other.answer), "answer"),
            (more(self.disk_bytes, other.disk_bytes), "disk"),
            (more(self.disk_files, other.disk_files), "files"),
            (self.profile > other.profile, "profile"),
        ];
        wider.into_iter().find_map(|(is_wider, field)| is_wider.then_some(field))
    }

    /// Puts a job under this template. What the job wants already is kept where it is less.
    pub fn bound(&self, spec: &mut JobSpec) {
        fn less<T: Ord>(mine: Option<T>, theirs: Option<T>) -> Option<T> {
            [mine, theirs].into_iter().flatten().min()
        }
        spec.profile = spec.profile.min(self.profile);
        let limits = &mut spec.limits;
        *limits = Limits {
            wall: less(limits.wall, self.wall),
            memory_bytes: less(limits.memory_bytes, self.memory_bytes.or_else(half_of_memory)),
            cpu_milli: less(limits.cpu_milli, self.cpu_milli),
            pids: limits.pids.min(self.pids),
            disk_bytes: less(limits.disk_bytes, self.disk_bytes),
            disk_files: less(limits.disk_files, self.disk_files),
            ..limits.clone()
        };
    }
}

/// Half of what the machine has, so that a job that eats memory ends before the machine does.
fn half_of_memory() -> Option<u64> {
    let machine = rustix::system::sysinfo();
    let total = u64::from(machine.mem_unit) * machine.totalram;
    (total > 0).then_some(total / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Template {
        Template::built_in().into_iter().find(|template| template.name == name).unwrap()
    }

    /// The table of seed 003.
    #[test]
    fn the_seeds_figures() {
        let show = |name| {
            let Template { network, memory_bytes, cpu_milli, pids, wall, answer, profile, .. } = find(name);
            let ms = |time: Option<Duration>| time.map(|time| time.as_millis());
            (network, memory_bytes.map(|bytes| bytes >> 20), cpu_milli, pids, ms(wall), ms(answer), profile)
        };
        use {Network::Restricted, Profile::*};
        assert_eq!(show("ai-provider"), (Restricted, Some(256), Some(500), 10, Some(120_000), None, Strict));
        assert_eq!(show("code-executor"), (Network::None, Some(1024), Some(1000), 100, Some(300_000), None, Standard));
        assert_eq!(show("policy-sandbox"), (Network::None, Some(128), Some(250), 5, None, Some(100), Strict));
        assert_eq!(show("integration-test"), (Restricted, Some(1024), Some(1000), 100, Some(300_000), None, StandardNet));
    }

    #[test]
    fn every_field_can_be_wider() {
        let small = find("code-executor");
        assert_eq!(small.wider_than(&small), None);
        type Widen = fn(&mut Template);
        let widen: &[(&str, Widen)] = &[
            ("network", |template| template.network = Network::Restricted),
            ("secrets", |template| template.secrets = true),
            ("models", |template| template.models = true),
            ("memory", |template| template.memory_bytes = Some(64 << 30)),
            ("memory", |template| template.memory_bytes = None),
            ("cpu", |template| template.cpu_milli = Some(1001)),
            ("pids", |template| template.pids = 99_999),
            ("duration", |template| template.wall = None),
            ("disk", |template| template.disk_bytes = Some(u64::MAX)),
            ("files", |template| template.disk_files = None),
            ("profile", |template| template.profile = Profile::StandardNet),
        ];
        for (field, change) in widen {
            let mut wider = small.clone();
            change(&mut wider);
            assert_eq!(wider.wider_than(&small), Some(*field));
            assert_eq!(small.wider_than(&wider), None, "{field}: the other way round it is narrower");
        }
        let (install, mut other) = (find("install"), find("install"));
        other.hosts = Some(vec!["pypi.org".into(), "evil.example".into()]);
        assert_eq!(other.wider_than(&install), Some("hosts"));
        other.hosts = None;
        assert_eq!(other.wider_than(&install), Some("hosts"));
        let (policy, mut slow) = (find("policy-sandbox"), find("policy-sandbox"));
        slow.answer = Some(Duration::from_secs(1));
        assert_eq!(slow.wider_than(&policy), Some("answer"));
    }

    /// Where Fluffy's `container.create` let the caller win: 64 GiB, 99,999 pids, any profile.
    #[test]
    fn a_caller_never_widens() {
        let mut greedy = JobSpec::exec(["true"]);
        greedy.profile = Profile::StandardNet;
        greedy.limits = Limits {
            wall: Some(Duration::from_secs(86_400)),
            memory_bytes: Some(64 << 30),
            cpu_milli: Some(64_000),
            pids: 99_999,
            disk_bytes: Some(u64::MAX),
            disk_files: None,
            ..Limits::default()
        };
        let template = find("code-executor");
        template.bound(&mut greedy);
        let Limits { wall, memory_bytes, cpu_milli, pids, disk_bytes, disk_files, .. } = greedy.limits;
        assert_eq!((wall, memory_bytes, cpu_milli), (template.wall, template.memory_bytes, template.cpu_milli));
        assert_eq!((pids, disk_bytes, disk_files, greedy.profile), (100, template.disk_bytes, template.disk_files, Profile::Standard));
        let mut modest = JobSpec::exec(["true"]);
        modest.limits.wall = Some(Duration::from_secs(1));
        modest.limits.pids = 3;
        template.bound(&mut modest);
        assert_eq!((modest.limits.wall, modest.limits.pids), (Some(Duration::from_secs(1)), 3));
    }
}
