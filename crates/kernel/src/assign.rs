//! Which worker somebody means, and with which brain.

use crate::queue::NamedWorker;
use crate::{Kernel, NewTask};
use gate::{BrainNames, TrustedPolicy, WorkerWish};
use std::path::Path;
use std::sync::Arc;
use world::event::{QueuePaused, QueueResumed, WorkerPinned};
use world::{Code, Event, Missing, Pid, Refusal, Stop, WorkerAddress, ZoneId, limits};

impl Kernel {
    /// Whom a new task is for, where somebody is named. The brain of whoever is named is the task's, unless it has another.
    pub(crate) async fn address_of(&self, new: &mut NewTask) -> Result<Option<WorkerAddress>, Stop> {
        let Some(text) = new.placement.who.clone() else { return Ok(None) };
        let address = WorkerAddress::parse(&text)?;
        if new.new_worker {
            return Err(Refusal::new(Code::BadInput, "a task is for a new worker, or for one who is named")
                .hint("`++` after a role takes on another of it")
                .into());
        }
        if let (Some(own), Some(asked)) = (&new.brain, &address.brain)
            && own != asked
        {
            return Err(Refusal::new(Code::BadInput, format!("two brains are named: `{own}` and `{asked}`")).hint("name one").into());
        }
        if new.brain.is_none() {
            new.brain = match (&address.brain, address.index) {
                (Some(brain), _) => Some(brain.clone()),
                (None, Some(_)) => self.find_worker(&new.path, &text).await.ok().and_then(|pid| self.brain_of_worker(pid)),
                (None, None) => None,
            };
        }
        match (&new.shape.role, &address.role) {
            (Some(own), Some(asked)) if own != asked => {
                let reason = format!("two roles are named: `{own}` and `{asked}`");
                return Err(Refusal::new(Code::BadInput, reason).hint("name one").into());
            }
            (None, Some(asked)) => new.shape.role = Some(asked.clone()),
            _ => {}
        }
        Ok(Some(address))
    }

    fn brain_of_worker(&self, pid: Pid) -> Option<String> {
        self.ledger.look(|world| world.processes.get(&pid).and_then(|process| process.brain.clone()))
    }

    /// The wish for a worker, as the queue looks for it: whoever is named, of the role that knows its skill. Without either it has none.
    pub(crate) fn named_worker(
        &self,
        zone: ZoneId,
        address: Option<WorkerAddress>,
        role: Option<&str>,
        trusted: &Arc<TrustedPolicy>,
    ) -> Result<Option<NamedWorker>, Refusal> {
        if address.is_none() && role.is_none() {
            return Ok(None);
        }
        let address = address.unwrap_or_default();
        let role = address.role.or_else(|| role.map(str::to_owned));
        let wish = WorkerWish::new(&WorkerAddress { role, ..address }, trusted)?;
        Ok(Some(NamedWorker { wish, brain: self.brain_names(zone, trusted) }))
    }

    /// What names of brains stand for in a project.
    fn brain_names(&self, zone: ZoneId, trusted: &Arc<TrustedPolicy>) -> Arc<BrainNames> {
        let (default, _) = self.brains.choose(Some(zone), None, Some(&trusted.config));
        let (me, trusted) = (self.me.clone(), Arc::clone(trusted));
        Arc::new(move |name| {
            let name = name.unwrap_or(&default);
            let spec = me.upgrade().and_then(|kernel| kernel.brains.find(name, Some(&trusted.config)).ok());
            (name.to_owned(), spec.map_or_else(|| name.to_owned(), |spec| spec.to_string()))
        })
    }

    /// The worker that an address means, in the repository at a path. Nobody is taken on.
    pub async fn find_worker(&self, path: &Path, text: &str) -> Result<Pid, Stop> {
        let address = WorkerAddress::parse(text)?;
        if address.is_new {
            return Err(Refusal::new(Code::BadInput, format!("`{text}` would take somebody on")).hint("name a worker who is there").into());
        }
        let top = gate::locate(path).await?;
        let zone = self.gate.policies.zone(&top)?.id;
        let trusted = self.gate.policies.in_force(zone)?;
        let wish = WorkerWish::new(&address, &trusted)?;
        let names = self.brain_names(zone, &trusted);
        if let Some(brain) = &address.brain {
            self.brains.find(brain, Some(&trusted.config))?;
        }
        let found = self.ledger.look(|world| wish.find(world, zone, names.as_ref()).map(|found| found.map(|process| process.pid)))?;
        Ok(found.ok_or_else(|| {
            let known = self.ledger.look(|world| {
                let all = world.processes.values().filter(|process| gate::is_worker(process, zone));
                all.map(|process| process.name.clone()).collect::<Vec<_>>().join(", ")
            });
            Refusal::missing(Missing::Worker, format!("there is no worker `{text}` here")).hint(format!("there are {known}"))
        })?)
    }

    /// Keeps a text in every later prompt of a worker, or gives up the one of this number, and says which there are then. To keep one twice
    /// changes nothing.
    pub async fn pin(&self, pid: Pid, add: Option<String>, remove: Option<usize>, by: &str) -> Result<Vec<String>, Stop> {
        let add = add.map(|text| text.trim().to_owned());
        if add.as_ref().is_some_and(|text| text.is_empty() || text.len() > limits::PIN_BYTES_MAX) {
            let what = format!("a pinned text has 1 to {} bytes", limits::PIN_BYTES_MAX);
            return Err(Refusal::new(Code::BadInput, what).hint("put what is long into a file, and pin its name").into());
        }
        let add = add.map(|text| self.ledger.redactor.text(&text).into_owned());
        let pending = self.ledger.commit(|world, _| {
            let mut pins = world.processes.get(&pid).map(|process| process.pins.clone()).unwrap_or_default();
            let before = pins.clone();
            if let Some(number) = remove {
                if number == 0 || number > pins.len() {
                    let no = Refusal::new(Code::NotFound, format!("nothing is pinned as {number}")).hint("without a text they are listed");
                    return (Vec::new(), Err(no));
                }
                pins.remove(number - 1);
            }
            pins.extend(add.filter(|text| !pins.contains(text)));
            if pins.len() > limits::PINS_MAX {
                let what = format!("{} texts are pinned already", limits::PINS_MAX);
                return (Vec::new(), Err(Refusal::new(Code::TooLarge, what).hint("give one up first")));
            }
            let event = (pins != before).then(|| WorkerPinned { pid, task: None, pins: pins.clone(), by: by.to_owned() }.into());
            (event.into_iter().collect(), Ok(pins))
        })?;
        Ok(pending.durable().await??)
    }

    /// Has a worker take nothing from its queue, or take again. To do it twice changes nothing.
    pub async fn pause_queue(&self, pid: Pid, is_paused: bool, by: &str) -> Result<(), Stop> {
        let pending = self.ledger.commit(|world, _| {
            let by = by.to_owned();
            let event: Option<Event> = match world.processes.get(&pid).map(|process| process.queue_paused) {
                Some(false) if is_paused => Some(QueuePaused { pid, task: None, by }.into()),
                Some(true) if !is_paused => Some(QueueResumed { pid, task: None, by }.into()),
                _ => None,
            };
            (event.into_iter().collect(), ())
        })?;
        pending.durable().await?;
        self.tasks.wake();
        Ok(())
    }
}
