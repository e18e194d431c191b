//! The network of a room: what a job asks for at its doors passes the gate like any call.
//!
//! One call stands for all that one job does with one host, port and method, so that a person's yes to a host is enough for an
//! install that opens ten tunnels; each connection has a record of its own. **Invariant.** Nothing leaves a room but under a permit
//! for exactly this host, port and method, and the call of that permit ends after the last byte that it let out. A yes is good for
//! new connections as long as what it rests on: the policy's version, the grant that was used, and no ban given since.

use gate::{Details, Gate, GateDecision, Permit, Request, TimedOutput, used_room};
use host::Rooms;
use sandbox::egress::{
    self, Behind, ConnectionMeter, Destination, EgressDenial, EgressPermit, EgressPolicy, EgressVerdict, End, Swap, Tally, Timeouts,
};
use sandbox::{PROXY_PORT, Template};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::net::TcpListener;
use world::event::{NetClosed, RecordsDropped};
use world::{BanId, CallId, Code, Fault, Refusal, Stop, limits};

/// Who stands at the doors of one job.
pub struct EgressGate {
    gate: Arc<Gate>,
    rooms: Arc<Rooms>,
    request: Request,
    call: CallId,
    template: Template,
    known: tokio::sync::Mutex<HashMap<Destination, KnownDestination>>,
    /// Records of this job's traffic, and those that were too many.
    records: AtomicU64,
    dropped: AtomicU64,
}

/// What was said about a host, and what it rests on besides its grant.
struct KnownDestination {
    basis: Basis,
    answer: EgressAnswer,
}

/// The version of the policy, and the bans that there were.
type Basis = (u64, Vec<BanId>);

enum EgressAnswer {
    Yes(Box<OpenPermit>),
    No(Refusal),
}

/// A call that lets something out.
struct OpenPermit {
    request: Request,
    permit: Permit,
    since: Instant,
    totals: Arc<Totals>,
}

#[derive(Default)]
struct Totals {
    requests: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
}

impl EgressPolicy for EgressGate {
    fn judge<'a>(&'a self, ask: &'a Destination) -> Pin<Box<dyn Future<Output = EgressVerdict> + Send + 'a>> {
        Box::pin(async move {
            let no = |refusal: Refusal| EgressDenial { hint: refusal.advice(), reason: refusal.reason };
            match self.decide(ask).await {
                Ok(meter) => EgressVerdict::Allow(self.permit_for(ask, meter)),
                Err(Stop::Refused(refusal)) if refusal.code == Code::Pending => EgressVerdict::Pending(no(refusal)),
                Err(Stop::Refused(refusal)) => EgressVerdict::Deny(no(refusal)),
                Err(Stop::Failed(fault)) => {
                    EgressVerdict::Deny(EgressDenial { reason: format!("it could not be decided: {fault}"), hint: fault.advice() })
                }
            }
        })
    }

    fn malformed<'a>(&'a self, why: &'a str) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            if !self.may_record() {
                return;
            }
            let request = self.request_of_job("net.request", json!({ "malformed": true }));
            let refusal = Refusal::new(Code::BadInput, why);
            if let Err(fault) = self.gate.refuse(&request, refusal, Instant::now()).await {
                world::log!("skep: a refusal is not on record: {fault}");
            }
        })
    }
}

impl EgressGate {
    /// `call` is the one that runs the job, and `request` what it was made by.
    pub fn new(gate: Arc<Gate>, rooms: Arc<Rooms>, request: Request, call: CallId, template: Template) -> EgressGate {
        EgressGate {
            gate,
            rooms,
            request,
            call,
            template,
            known: tokio::sync::Mutex::new(HashMap::new()),
            records: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// The doors to the world; none in a room that reaches nothing but models.
    pub fn doors(&self) -> Vec<(u16, Behind)> {
        if self.template.network != sandbox::Network::Restricted {
            return Vec::new();
        }
        let given = self.rooms.settings();
        let services = given.host_services.services.iter().filter(|service| service.door);
        [(PROXY_PORT, Behind::Proxy)]
            .into_iter()
            .chain(services.map(|service| (service.port, Behind::Place(service.destination()))))
            .collect()
    }

    /// What tells programs in the room of these doors; nothing where there are none.
    pub fn environment(&self) -> Vec<(String, String)> {
        if self.template.network != sandbox::Network::Restricted {
            return Vec::new();
        }
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        let named = |names: &[&str], value: &str| names.iter().map(|name| ((*name).to_owned(), value.to_owned())).collect::<Vec<_>>();
        let mut env = named(&["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "CARGO_HTTP_PROXY"], &proxy);
        env.extend(named(&["NO_PROXY", "no_proxy"], "127.0.0.1,localhost,::1"));
        // Node's own fetch looks at the proxy only when it is told to.
        env.extend(named(&["NODE_USE_ENV_PROXY", "PIP_DISABLE_PIP_VERSION_CHECK"], "1"));
        env.extend(named(&["npm_config_audit", "npm_config_fund", "npm_config_update_notifier"], "false"));
        // It tries again after 10 and 60 seconds, which is long for a no.
        env.extend(named(&["npm_config_fetch_retry_mintimeout"], "1000"));
        env.extend(named(&["npm_config_fetch_retry_maxtimeout"], "5000"));
        let given = self.rooms.settings();
        let host_services = &given.host_services;
        for service in &host_services.services {
            let name = format!("SKEP_SERVICE_{}", service.name.to_ascii_uppercase().replace('-', "_"));
            let at = if service.door { format!("127.0.0.1:{}", service.port) } else { format!("{}:{}", service.host, service.port) };
            env.push((name, at));
        }
        if self.template.secrets {
            env.extend(host_services.secrets.iter().map(|(name, secret)| (name.clone(), secret.sentinel.clone())));
        }
        env
    }

    /// Serves one of the doors until `over` comes.
    pub async fn serve(self: Arc<Self>, door: TcpListener, behind: Behind, over: impl Future<Output = ()> + Send + 'static) {
        egress::serve(door, behind, self, Timeouts::default(), over).await;
    }

    /// A request of the job, as a call of the process that runs it.
    fn request_of_job(&self, tool: &str, input: Value) -> Request {
        let Request { pid, task, zone, run_mode, .. } = self.request;
        Request { run_mode, of: Some(self.call), ..Request::new(pid, task, zone, tool, input) }
    }

    /// The meter of a connection that may be opened. What was decided for this job holds for it until the policy, a ban or its own
    /// grant changes.
    async fn decide(&self, ask: &Destination) -> Result<ConnectionRecord, Stop> {
        let mut known = self.known.lock().await;
        let version = self.gate.policies.trusted(self.request.zone)?.map_or(0, |trusted| trusted.version);
        // Read before it is decided anew: what changes in between is found by the next to ask.
        let basis = (version, self.gate.ledger.look(|world| world.bans.keys().copied().collect()));
        match known.get(ask).filter(|known| known.basis == basis && self.is_still_granted(&known.answer)).map(|known| &known.answer) {
            Some(EgressAnswer::Yes(open)) => {
                // It has no record of its own to wait for, and nothing leaves before what was read earlier is on disk.
                self.gate.ledger.settle_late().await?;
                return Ok(self.meter(ask, open));
            }
            Some(EgressAnswer::No(refusal)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return Err(refusal.clone().into());
            }
            None => {}
        }
        if let Some(KnownDestination { answer: EgressAnswer::Yes(open), .. }) = known.remove(ask) {
            open.settle(&self.gate).await?;
        }
        let request = match &ask.method {
            None => self.request_of_job("net.connect", json!({ "host": ask.host, "port": ask.port, "room": self.template.name })),
            Some(method) => self
                .request_of_job("net.request", json!({ "host": ask.host, "port": ask.port, "method": method, "room": self.template.name })),
        };
        match self.admit(ask, &request).await {
            Ok(permit) => {
                let open = OpenPermit { request, permit, since: Instant::now(), totals: Arc::default() };
                let meter = self.meter(ask, &open);
                known.insert(ask.clone(), KnownDestination { basis, answer: EgressAnswer::Yes(Box::new(open)) });
                Ok(meter)
            }
            Err(Stop::Refused(refusal)) => {
                // A question may be answered while the job runs, and a limit may pass; a no is one.
                if refusal.code != Code::Pending && refusal.retry_after().is_none() {
                    known.insert(ask.clone(), KnownDestination { basis, answer: EgressAnswer::No(refusal.clone()) });
                }
                Err(refusal.into())
            }
            Err(failed) => Err(failed),
        }
    }

    /// Is the grant behind it still there? One that is used up is: its use was for this job.
    fn is_still_granted(&self, answer: &EgressAnswer) -> bool {
        let EgressAnswer::Yes(open) = answer else { return true };
        let Some(grant) = &open.permit.grant else { return true };
        let over = grant.terms.until.as_ref().is_some_and(|until| until.is_over(&self.gate.moment()));
        !over && self.gate.ledger.look(|world| world.grants.contains_key(&grant.id))
    }

    async fn admit(&self, ask: &Destination, request: &Request) -> Result<Permit, Stop> {
        let refuse = async |refusal: Refusal| -> Result<Permit, Stop> {
            self.gate.refuse(request, refusal.clone(), Instant::now()).await?;
            Err(refusal.into())
        };
        let service = self.rooms.settings().host_services.service(ask).is_some();
        if let Some(hosts) = self.template.hosts.as_ref().filter(|hosts| !service && !hosts.contains(&ask.host)) {
            let reason = format!("`{}` is not one of the {} hosts of the template `{}`", ask.host, hosts.len(), self.template.name);
            return refuse(Refusal::new(Code::Denied, reason).hint("use a template that leaves it to the policy")).await;
        }
        if let Err(refusal) = self.check_permissions(ask) {
            return refuse(refusal).await;
        }
        // A name that leads nowhere public is refused when it is dialled, whatever a person says: nobody is asked about it.
        let is_name = ask.host.parse::<std::net::IpAddr>().is_err();
        if let Some(why) = egress::closed_name(&ask.host).filter(|_| is_name && !service) {
            let hint = "only public hosts can be reached; the operator can lend a service of this machine to sandboxes";
            return refuse(Refusal::new(Code::Denied, format!("`{}` cannot be reached: {why}", ask.host)).hint(hint)).await;
        }
        for _ in 0..2 {
            let facts = self.gate.describe_without_files(request, self.details(ask, request)).await?;
            if let Some(no) = self.gate.unsupported_override(request, &facts.call) {
                return refuse(no).await;
            }
            match self.gate.admit(request, &facts).await? {
                None => {}
                Some(GateDecision::Admitted { permit, .. }) => return Ok(permit),
                Some(GateDecision::Refused { refusal, .. } | GateDecision::Pending { refusal, .. }) => return Err(refusal.into()),
            }
        }
        refuse(gate::stale()).await
    }

    /// What the permissions of the job's tool say, and of the tool whose work it does.
    fn check_permissions(&self, ask: &Destination) -> Result<(), Refusal> {
        // What asks in clear text names its method; a tunnel does not.
        let is_tunnel = ask.method.is_none();
        let own = self.gate.tool(&self.request.tool)?;
        own.manifest().may_reach(&ask.host, is_tunnel)?;
        self.request.done_for.as_ref().map_or(Ok(()), |other| other.may_reach(&ask.host, is_tunnel))
    }

    /// What rules see of what the job asks for.
    fn details(&self, ask: &Destination, request: &Request) -> Details {
        Details {
            run_mode: request.run_mode,
            host: Some(ask.host.clone()),
            method: ask.method.clone(),
            port: Some(ask.port),
            room: Some(used_room(&self.template)),
            ..Details::of(&request.tool, request.input.clone())
        }
    }

    fn permit_for(&self, ask: &Destination, meter: ConnectionRecord) -> EgressPermit {
        let given = self.rooms.settings();
        let host_services = &given.host_services;
        let (to, tls) = host_services.route_to(ask);
        let own = host_services
            .secrets
            .iter()
            .map(|(_, secret)| secret)
            .filter(|secret| self.template.secrets && secret.hosts.contains(&ask.host));
        let swaps =
            own.map(|secret| Swap { sentinel: secret.sentinel.clone(), secret: secret.value.clone(), header: secret.header.clone() });
        EgressPermit { to, tls, swaps: swaps.collect(), meter: Box::new(meter) }
    }

    fn meter(&self, ask: &Destination, open: &OpenPermit) -> ConnectionRecord {
        let Request { pid, task, .. } = open.request;
        let closed = NetClosed {
            pid,
            task,
            call: open.permit.call,
            host: ask.host.clone(),
            port: ask.port,
            method: ask.method.clone(),
            up: 0,
            down: 0,
            ms: 0,
            end: String::new(),
        };
        let records = self.may_record();
        ConnectionRecord { gate: Arc::clone(&self.gate), closed, totals: Arc::clone(&open.totals), records }
    }

    /// Is there room for one more record? The totals of its call count it in any case.
    fn may_record(&self) -> bool {
        let fits = self.records.fetch_add(1, Ordering::Relaxed) < limits::NET_RECORDS_MAX;
        if !fits {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        fits
    }

    /// Settles what was let out, once nothing passes any more.
    pub async fn settle(&self) -> Result<(), Fault> {
        let known = std::mem::take(&mut *self.known.lock().await);
        for (_, known) in known {
            if let EgressAnswer::Yes(open) = known.answer {
                open.settle(&self.gate).await?;
            }
        }
        let count = self.dropped.swap(0, Ordering::Relaxed);
        if count > 0 {
            let Request { pid, task, .. } = self.request;
            self.gate.ledger.record(RecordsDropped { pid, task, kind: "net.closed".into(), count }).await?;
        }
        Ok(())
    }
}

impl OpenPermit {
    async fn settle(self, gate: &Gate) -> Result<(), Fault> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Totals { requests, up, down } = &*self.totals;
        let value = json!({ "requests": count(requests), "bytes_up": count(up), "bytes_down": count(down) });
        let ran = TimedOutput::success(value, self.since.elapsed());
        gate.finish(None, &self.request, &self.permit, ran).await.map(drop)
    }
}

/// The record of one connection, which is written when it ends.
struct ConnectionRecord {
    gate: Arc<Gate>,
    closed: NetClosed,
    totals: Arc<Totals>,
    records: bool,
}

impl ConnectionMeter for ConnectionRecord {
    fn end(self: Box<Self>, tally: Tally) {
        let Tally { up, down, duration, end } = tally;
        let ConnectionRecord { gate, closed, totals, records } = *self;
        totals.requests.fetch_add(1, Ordering::Relaxed);
        totals.up.fetch_add(up, Ordering::Relaxed);
        totals.down.fetch_add(down, Ordering::Relaxed);
        if !records {
            return;
        }
        let end = match end {
            End::Done => "done".to_owned(),
            End::Refused(why) => format!("refused: {why}"),
            End::Failed(why) => format!("failed: {why}"),
        };
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let event = NetClosed { up, down, ms, end: gate.ledger.redactor.text(&end).into_owned(), ..closed };
        // Ordered now; on disk at the latest with the end of its call.
        if let Err(fault) = gate.ledger.commit(|_, _| (vec![event.into()], ())) {
            world::log!("skep: a connection is not on record: {fault}");
        }
    }
}
