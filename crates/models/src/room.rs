//! A room's own way to models: a door on its loopback, and a key that is good there and nowhere else while its job runs.
//!
//! **Invariant.** What a job asks is asked by the process whose call runs it: a part of that call, decided, paid and recorded as any
//! request is. Nobody outside the room can reach the door.

use crate::Models;
use crate::admission::ProcessAdmission;
use gate::Request;
use gateway::{ClientSession, Gateway, Secret, VendorClient};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use world::Fault;
use world::{CallId, Pid, UsedRoom, ZoneId};

/// What serves a room's requests to models.
pub struct RoomModels {
    gateway: Arc<Gateway>,
    session: Arc<ClientSession>,
}

impl RoomModels {
    /// `key` is the one that the job was given when another call ran it. `call` is the one that runs the job, and `client` the vendor's client that the job is, by the kernel's own word.
    pub fn open(
        models: &Arc<Models>,
        request: &Request,
        call: CallId,
        room: UsedRoom,
        client: Option<VendorClient>,
        key: Option<&str>,
    ) -> Result<RoomModels, Fault> {
        let door = ProcessAdmission::of(models, request.pid, request.zone).within(request.task, call, room);
        let mut session = models.session_with(request.pid, client, Arc::new(door))?;
        if let Some(key) = key {
            session.key = Secret::new(key.to_owned());
        }
        Ok(RoomModels { gateway: models.gateway().clone(), session: Arc::new(session) })
    }

    /// The way to models of a process whose program lives long: each request is a call of the process itself.
    pub fn of_process(models: &Arc<Models>, pid: Pid, zone: ZoneId) -> Result<RoomModels, Fault> {
        Ok(RoomModels { gateway: models.gateway().clone(), session: Arc::new(models.session_of(pid, zone, None)?) })
    }

    /// What opens its door.
    pub fn key(&self) -> &str {
        self.session.key.reveal()
    }

    /// What the vendors' clients look for, where the room's door to models has this port.
    pub fn environment(&self, port: u16) -> Vec<(String, String)> {
        let (url, key) = (format!("http://127.0.0.1:{port}"), self.session.key.reveal());
        let all = [
            ("ANTHROPIC_BASE_URL", url.as_str()),
            ("ANTHROPIC_API_KEY", key),
            ("OPENAI_BASE_URL", &format!("{url}/v1")),
            ("OPENAI_API_KEY", key),
            ("GOOGLE_GEMINI_BASE_URL", &url),
            ("GEMINI_API_KEY", key),
        ];
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    /// Serves the room until `over`; then every request that is still on its way ends.
    pub fn serve<F: Future<Output = ()> + Send>(&self, door: TcpListener, over: F) -> impl Future<Output = ()> + Send + use<F> {
        let (gateway, session) = (self.gateway.clone(), self.session.clone());
        async move {
            let (_open, closing) = watch::channel(false);
            tokio::select! {
                () = gateway::listen(gateway, session, door, closing) => {}
                () = over => {}
            }
        }
    }
}
