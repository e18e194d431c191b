//! `CoreService`: which method of the table answers which of HiveKernel's.

use super::speaker::GrpcSpeaker;
use super::{artifact, cron, follow, message, process};
use futures_util::Stream;
use hive::generated::agent::{
    AgentMessage, EscalateRequest, EscalateResponse, GetArtifactRequest, GetArtifactResponse, KillRequest, KillResponse,
    ListSiblingsRequest, ListSiblingsResponse, LogRequest, LogResponse, SendMessageRequest, SendMessageResponse, SpawnRequest,
    SpawnResponse, StoreArtifactRequest, StoreArtifactResponse, WaitChildRequest, WaitChildResponse,
};
use hive::generated::core::core_service_server::CoreService;
use hive::generated::core::{
    AddCronRequest, AddCronResponse, ExecuteTaskRequest, ExecuteTaskResponse, ListArtifactsRequest, ListArtifactsResponse,
    ListChildrenRequest, ListChildrenResponse, ListCronRequest, ListCronResponse, ListInboxRequest, ListInboxResponse, MetricRequest,
    MetricResponse, ProcessEvent, ProcessInfo, ProcessInfoRequest, RemoveCronRequest, RemoveCronResponse, ResourceRequest,
    ResourceResponse, ResourceUsage, ResourceUsageRequest, SubscribeEventsRequest, SubscribeRequest,
};
use hive::tonic::{self, Request, Response, Status};
use std::pin::Pin;
use std::sync::Arc;
use tree::Tree;
use wire::table::MethodId;

/// The service, over one tree.
pub(super) struct CoreRpc {
    pub tree: Arc<Tree>,
    /// The operator may speak for a process by naming its pid.
    pub trust_pid_header: bool,
}

type Answer<T> = Result<Response<T>, Status>;
type AnswerStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl CoreRpc {
    /// Who speaks, if the table lets him, and what he says.
    fn heard<T>(&self, request: Request<T>, method: MethodId) -> Result<(GrpcSpeaker, T), Status> {
        Ok((GrpcSpeaker::of(&request, method, self.trust_pid_header)?, request.into_inner()))
    }

    /// Work that goes on when its caller hangs up: what is half done is nobody's.
    async fn finish<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T, Status> {
        tokio::spawn(work).await.map_err(|error| Status::internal(format!("the call ended in the middle: {error}")))
    }
}

#[tonic::async_trait]
impl CoreService for CoreRpc {
    async fn spawn_child(&self, request: Request<SpawnRequest>) -> Answer<SpawnResponse> {
        let (speaker, request) = self.heard(request, MethodId::ProcSpawn)?;
        let tree = self.tree.clone();
        self.finish(async move { process::spawn(&tree, speaker, request).await }).await?.map(Response::new)
    }

    async fn kill_child(&self, request: Request<KillRequest>) -> Answer<KillResponse> {
        let (speaker, request) = self.heard(request, MethodId::ProcKill)?;
        let tree = self.tree.clone();
        self.finish(async move { process::kill(&tree, speaker, &request).await }).await?.map(Response::new)
    }

    async fn get_process_info(&self, request: Request<ProcessInfoRequest>) -> Answer<ProcessInfo> {
        let (speaker, request) = self.heard(request, MethodId::ProcInfo)?;
        process::info(&self.tree, speaker, request).map(Response::new)
    }

    async fn list_children(&self, request: Request<ListChildrenRequest>) -> Answer<ListChildrenResponse> {
        let (speaker, request) = self.heard(request, MethodId::ProcChildren)?;
        process::children(&self.tree, speaker, request).map(Response::new)
    }

    async fn send_message(&self, request: Request<SendMessageRequest>) -> Answer<SendMessageResponse> {
        let (speaker, request) = self.heard(request, MethodId::MessageSend)?;
        message::send(&self.tree, speaker, request).await.map(Response::new)
    }

    type SubscribeStream = AnswerStream<AgentMessage>;

    async fn subscribe(&self, request: Request<SubscribeRequest>) -> Answer<AnswerStream<AgentMessage>> {
        let (speaker, request) = self.heard(request, MethodId::MessageSubscribe)?;
        let stream = message::subscribe(&self.tree, speaker, request).await?;
        Ok(Response::new(Box::pin(stream)))
    }

    async fn store_artifact(&self, request: Request<StoreArtifactRequest>) -> Answer<StoreArtifactResponse> {
        let (speaker, request) = self.heard(request, MethodId::ArtifactStore)?;
        artifact::store(&self.tree, speaker, request).await.map(Response::new)
    }

    async fn get_artifact(&self, request: Request<GetArtifactRequest>) -> Answer<GetArtifactResponse> {
        let (speaker, request) = self.heard(request, MethodId::ArtifactRead)?;
        artifact::read(&self.tree, speaker, request).await.map(Response::new)
    }

    async fn list_artifacts(&self, request: Request<ListArtifactsRequest>) -> Answer<ListArtifactsResponse> {
        let (speaker, request) = self.heard(request, MethodId::ArtifactList)?;
        artifact::list(&self.tree, speaker, request).await.map(Response::new)
    }

    async fn get_resource_usage(&self, request: Request<ResourceUsageRequest>) -> Answer<ResourceUsage> {
        let (speaker, ResourceUsageRequest {}) = self.heard(request, MethodId::ResourceUsage)?;
        artifact::usage(&self.tree, speaker).map(Response::new)
    }

    async fn request_resources(&self, request: Request<ResourceRequest>) -> Answer<ResourceResponse> {
        let (speaker, request) = self.heard(request, MethodId::ResourceRequest)?;
        artifact::request(&self.tree, speaker, request).await.map(Response::new)
    }

    async fn escalate(&self, request: Request<EscalateRequest>) -> Answer<EscalateResponse> {
        let (speaker, request) = self.heard(request, MethodId::EscalationRaise)?;
        artifact::escalate(&self.tree, speaker, request).await.map(Response::new)
    }

    async fn log(&self, request: Request<LogRequest>) -> Answer<LogResponse> {
        let (speaker, request) = self.heard(request, MethodId::LogWrite)?;
        artifact::log(&self.tree, speaker, request).await?;
        Ok(Response::new(LogResponse {}))
    }

    async fn report_metric(&self, request: Request<MetricRequest>) -> Answer<MetricResponse> {
        let (speaker, request) = self.heard(request, MethodId::MetricReport)?;
        artifact::metric(&self.tree, speaker, request).await?;
        Ok(Response::new(MetricResponse {}))
    }

    async fn execute_task(&self, request: Request<ExecuteTaskRequest>) -> Answer<ExecuteTaskResponse> {
        let (speaker, request) = self.heard(request, MethodId::ProcExecute)?;
        let tree = self.tree.clone();
        self.finish(async move { process::execute(&tree, speaker, request).await }).await.map(Response::new)
    }

    type SubscribeEventsStream = AnswerStream<ProcessEvent>;

    async fn subscribe_events(&self, request: Request<SubscribeEventsRequest>) -> Answer<AnswerStream<ProcessEvent>> {
        let (speaker, request) = self.heard(request, MethodId::EventFollow)?;
        Ok(Response::new(Box::pin(follow::events(&self.tree, speaker.by, request))))
    }

    async fn add_cron(&self, request: Request<AddCronRequest>) -> Answer<AddCronResponse> {
        let (speaker, request) = self.heard(request, MethodId::CronAdd)?;
        Ok(Response::new(cron::add(&self.tree, speaker, request).await))
    }

    async fn remove_cron(&self, request: Request<RemoveCronRequest>) -> Answer<RemoveCronResponse> {
        let (speaker, request) = self.heard(request, MethodId::CronRemove)?;
        Ok(Response::new(cron::remove(&self.tree, speaker, &request).await))
    }

    async fn list_cron(&self, request: Request<ListCronRequest>) -> Answer<ListCronResponse> {
        let (speaker, ListCronRequest {}) = self.heard(request, MethodId::CronList)?;
        Ok(Response::new(cron::list(&self.tree, speaker)))
    }

    async fn list_inbox(&self, request: Request<ListInboxRequest>) -> Answer<ListInboxResponse> {
        let (speaker, request) = self.heard(request, MethodId::MessageList)?;
        message::inbox(&self.tree, speaker, request).await.map(Response::new)
    }

    async fn list_siblings(&self, request: Request<ListSiblingsRequest>) -> Answer<ListSiblingsResponse> {
        let (speaker, ListSiblingsRequest {}) = self.heard(request, MethodId::ProcSiblings)?;
        process::siblings(&self.tree, speaker).map(Response::new)
    }

    async fn wait_child(&self, request: Request<WaitChildRequest>) -> Answer<WaitChildResponse> {
        let (speaker, request) = self.heard(request, MethodId::ProcWait)?;
        process::wait(&self.tree, speaker, &request).await.map(Response::new)
    }
}
