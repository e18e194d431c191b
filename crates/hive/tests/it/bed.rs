//! What the tests share: a kernel that echoes, clients, and agents in Rust that do what they are told.

use hive::generated::agent::*;
use hive::generated::core::core_service_client::CoreServiceClient;
use hive::generated::core::core_service_server::CoreService;
use hive::generated::core::*;
use hive::tonic::codegen::tokio_stream::Stream;
use hive::tonic::metadata::MetadataValue;
use hive::tonic::{Request, Response, Status, async_trait};
use hive::{GrpcChannel, GrpcListener, LinkLimits, RpcCaller, ServeLimits, ServerHandle, core_service, outbox, serve};
use prost::Message;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// Sends each request back, as it was read, in the metadata of its answer, and answers what the request's metadata ask for.
#[derive(Debug, Default)]
pub struct EchoCore {
    /// Streams that are open: each counts itself off when it is dropped.
    pub streams: Arc<AtomicUsize>,
    /// Messages that the queue `flood` has made.
    pub flooded: Arc<AtomicUsize>,
}

/// The size of a message of the queue `flood`, which makes them as fast as they are taken.
pub const FLOOD_BYTES: usize = 10_000;

fn echoed<Q: Message, A: Message + Default>(request: &Request<Q>) -> Result<(A, Vec<u8>), Status> {
    let wanted = request.metadata().get_bin("x-answer-bin").and_then(|value| value.to_bytes().ok()).unwrap_or_default();
    let answer = A::decode(wanted).map_err(|error| Status::invalid_argument(error.to_string()))?;
    Ok((answer, request.get_ref().encode_to_vec()))
}

fn unary<Q: Message, A: Message + Default>(request: &Request<Q>) -> Result<Response<A>, Status> {
    let caller = RpcCaller::of(request)?;
    let (answer, heard) = echoed(request)?;
    let mut response = Response::new(answer);
    response.metadata_mut().insert_bin("x-request-bin", MetadataValue::from_bytes(&heard));
    response.metadata_mut().insert("x-caller", format!("{caller:?}").parse().unwrap());
    Ok(response)
}

/// A stream that is counted as long as it is there.
pub struct CountedStream<T>(Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>, Arc<AtomicUsize>);

impl<T> Stream for CountedStream<T> {
    type Item = Result<T, Status>;
    fn poll_next(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl<T> Drop for CountedStream<T> {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

impl EchoCore {
    /// Three times the answer that is asked for; or, for the queue `forever`, nothing and no end.
    fn stream<Q: Message, A: Message + Default + Clone + 'static>(
        &self,
        request: &Request<Q>,
        is_endless: bool,
    ) -> Result<Response<CountedStream<A>>, Status> {
        let (answer, heard) = echoed::<Q, A>(request)?;
        let (outbox, stream) = outbox(8);
        if is_endless {
            tokio::spawn(async move { outbox.closed().await });
        } else {
            for _ in 0..3 {
                outbox.push(answer.clone()).map_err(|lagging| Status::internal(lagging.to_string()))?;
            }
        }
        self.streams.fetch_add(1, Ordering::SeqCst);
        let mut response = Response::new(CountedStream(Box::pin(stream), Arc::clone(&self.streams)));
        response.metadata_mut().insert_bin("x-request-bin", MetadataValue::from_bytes(&heard));
        Ok(response)
    }
}

macro_rules! echo {
    ($($method:ident($request:ty) -> $answer:ty;)*) => {
        #[async_trait]
        impl CoreService for EchoCore {
            type SubscribeStream = CountedStream<AgentMessage>;
            type SubscribeEventsStream = CountedStream<ProcessEvent>;

            async fn subscribe(&self, request: Request<SubscribeRequest>) -> Result<Response<Self::SubscribeStream>, Status> {
                if request.get_ref().queue == "flood" {
                    let flooded = Arc::clone(&self.flooded);
                    let made = futures_util::stream::repeat_with(move || {
                        flooded.fetch_add(1, Ordering::SeqCst);
                        Ok(AgentMessage { payload: vec![1; FLOOD_BYTES], ..Default::default() })
                    });
                    self.streams.fetch_add(1, Ordering::SeqCst);
                    return Ok(Response::new(CountedStream(Box::pin(made), Arc::clone(&self.streams))));
                }
                self.stream(&request, request.get_ref().queue == "forever")
            }

            async fn subscribe_events(
                &self,
                request: Request<SubscribeEventsRequest>,
            ) -> Result<Response<Self::SubscribeEventsStream>, Status> {
                self.stream(&request, false)
            }

            $(async fn $method(&self, request: Request<$request>) -> Result<Response<$answer>, Status> {
                unary(&request)
            })*
        }
    };
}

echo! {
    spawn_child(SpawnRequest) -> SpawnResponse;
    kill_child(KillRequest) -> KillResponse;
    get_process_info(ProcessInfoRequest) -> ProcessInfo;
    list_children(ListChildrenRequest) -> ListChildrenResponse;
    send_message(SendMessageRequest) -> SendMessageResponse;
    store_artifact(StoreArtifactRequest) -> StoreArtifactResponse;
    get_artifact(GetArtifactRequest) -> GetArtifactResponse;
    list_artifacts(ListArtifactsRequest) -> ListArtifactsResponse;
    get_resource_usage(ResourceUsageRequest) -> ResourceUsage;
    request_resources(ResourceRequest) -> ResourceResponse;
    escalate(EscalateRequest) -> EscalateResponse;
    log(LogRequest) -> LogResponse;
    report_metric(MetricRequest) -> MetricResponse;
    execute_task(ExecuteTaskRequest) -> ExecuteTaskResponse;
    add_cron(AddCronRequest) -> AddCronResponse;
    remove_cron(RemoveCronRequest) -> RemoveCronResponse;
    list_cron(ListCronRequest) -> ListCronResponse;
    list_inbox(ListInboxRequest) -> ListInboxResponse;
    list_siblings(ListSiblingsRequest) -> ListSiblingsResponse;
    wait_child(WaitChildRequest) -> WaitChildResponse;
}

pub type CoreClient = CoreServiceClient<GrpcChannel>;

/// A client on a connection.
pub async fn client(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> CoreClient {
    let channel = GrpcChannel::open(stream, &LinkLimits::default()).await.unwrap();
    CoreServiceClient::with_origin(channel, GrpcChannel::origin())
}

/// A door of process 7 with the echo behind it.
pub struct EchoDoor {
    pub address: std::net::SocketAddr,
    pub handle: ServerHandle,
    pub streams: Arc<AtomicUsize>,
    pub flooded: Arc<AtomicUsize>,
}

impl EchoDoor {
    pub async fn open(limits: ServeLimits) -> EchoDoor {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let echo = EchoCore::default();
        let (streams, flooded) = (Arc::clone(&echo.streams), Arc::clone(&echo.flooded));
        let service = core_service(Arc::new(echo), &limits);
        EchoDoor { address, handle: serve(GrpcListener::Door { socket, pid: 7 }, service, limits), streams, flooded }
    }

    pub async fn connect(&self) -> TcpStream {
        hive::connect_loopback(self.address.port()).await.unwrap()
    }

    pub async fn client(&self) -> CoreClient {
        client(self.connect().await).await
    }
}

/// Waits until something holds, and fails after ten seconds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let given_up = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
    while !holds() {
        assert!(tokio::time::Instant::now() < given_up, "{what}: not within ten seconds");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
