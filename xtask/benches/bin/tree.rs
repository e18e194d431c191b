//! The reference of the process tree: `GetProcessInfo` of a bare tonic echo, by 64 callers on two threads over a unix socket; beside it the same
//! echo behind `hive`'s listener, which finds out who calls and bounds what is sent; and, with the path of a kernel's socket as argument, what that
//! kernel answers. Prints one JSON line, in calls a second.
#![forbid(unsafe_code)]

use hive::generated::core::core_service_client::CoreServiceClient;
use hive::generated::core::{ProcessInfo, ProcessInfoRequest};
use hive::tonic::codegen::{Body, BoxFuture, Service, StdError, http};
use hive::tonic::server::{Grpc, UnaryService};
use hive::tonic::{self, Request, Response, Status};
use hive::{GrpcChannel, GrpcListener, LinkLimits, PeerIdentity, ServeLimits, serve};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use std::convert::Infallible;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

const CALLERS: usize = 64;
const WARM_UP: Duration = Duration::from_millis(100);
const MEASURED: Duration = Duration::from_millis(700);
/// The two take turns, so that what else the machine does meets both.
const ROUNDS: usize = 9;

/// Answers with the process that is asked for, as a table in memory would.
#[derive(Clone)]
struct Echo;

impl UnaryService<ProcessInfoRequest> for Echo {
    type Response = ProcessInfo;
    type Future = BoxFuture<Response<ProcessInfo>, Status>;

    fn call(&mut self, request: Request<ProcessInfoRequest>) -> Self::Future {
        let pid = request.into_inner().pid;
        let (user, name, model) = ("root".to_owned(), "queen@vps1".to_owned(), "sonnet".to_owned());
        Box::pin(async move { Ok(Response::new(ProcessInfo { pid, ppid: 1, user, name, model, ..Default::default() })) })
    }
}

impl<B> Service<http::Request<B>> for Echo
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
    B::Data: Send,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let echo = self.clone();
        Box::pin(async move { Ok(Grpc::new(tonic_prost::ProstCodec::default()).unary(echo, request).await) })
    }
}

/// The echo on hyper, with nothing between.
async fn bare(socket: UnixListener) {
    while let Ok((stream, _)) = socket.accept().await {
        let answer = hyper::service::service_fn(|request| Service::call(&mut Echo, request));
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer);
        tokio::spawn(connection);
    }
}

/// Calls a second, of callers that share so many connections. An echo is asked for a process of each caller, a kernel for itself.
async fn measure(path: &Path, connections: usize, is_kernel: bool) -> Result<f64, Box<dyn Error + Send + Sync>> {
    let mut channels = Vec::new();
    for _ in 0..connections {
        channels.push(GrpcChannel::open(UnixStream::connect(path).await?, &LinkLimits::default()).await?);
    }
    let (begin, end) = (Instant::now() + WARM_UP, Instant::now() + WARM_UP + MEASURED);
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let mut client = CoreServiceClient::with_origin(channels[caller % connections].clone(), GrpcChannel::origin());
        callers.spawn(async move {
            let mut count: u64 = 0;
            while Instant::now() < end {
                let pid = if is_kernel { 1 } else { caller as u64 + 1 };
                let mut request = Request::new(ProcessInfoRequest { pid });
                request.metadata_mut().insert(hive::PID_HEADER, pid.into());
                if client.get_process_info(request).await?.get_ref().pid != pid {
                    return Err(Status::internal("another process was told of"));
                }
                count += u64::from(Instant::now() >= begin);
            }
            Ok(count)
        });
    }
    let mut count = 0;
    while let Some(caller) = callers.join_next().await {
        count += caller??;
    }
    Ok(count as f64 / MEASURED.as_secs_f64())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    rates[rates.len() / 2]
}

async fn run(folder: PathBuf, kernel: Option<PathBuf>) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (bare_path, hive_path) = (folder.join("bare"), folder.join("hive"));
    tokio::spawn(bare(UnixListener::bind(&bare_path)?));
    let identify = Arc::new(|_: &hive::UnixPeer<'_>| PeerIdentity::Operator);
    let listener = GrpcListener::Unix { socket: UnixListener::bind(&hive_path)?, identify };
    let served = serve(listener, Echo, ServeLimits::default());
    let mut rates: [Vec<f64>; 4] = Default::default();
    let mut asked: [Vec<f64>; 2] = Default::default();
    for _ in 0..ROUNDS {
        let cases = [(&bare_path, CALLERS), (&hive_path, CALLERS), (&bare_path, 1), (&hive_path, 1)];
        for (rates, (path, connections)) in rates.iter_mut().zip(cases) {
            rates.push(measure(path, connections, false).await?);
        }
        for (rates, connections) in asked.iter_mut().zip([CALLERS, 1]).filter(|_| kernel.is_some()) {
            rates.push(measure(kernel.as_deref().unwrap_or(&hive_path), connections, true).await?);
        }
    }
    served.stop(Duration::from_secs(1)).await;
    // Of neighbours in time: between rounds other work comes and goes.
    let ratio = |ours: &[f64], bare: &[f64]| median(ours.iter().zip(bare).map(|(ours, bare)| ours / bare).collect());
    let (ratio_many, ratio_one) = (ratio(&rates[1], &rates[0]), ratio(&rates[3], &rates[2]));
    let of_kernel = kernel.is_some().then(|| {
        let many = ratio(&asked[0], &rates[0]);
        let one = ratio(&asked[1], &rates[2]);
        let [asked_many, asked_one] = asked.map(median);
        json!({"own_connections": asked_many, "own_ratio": many, "one_connection": asked_one, "one_ratio": one})
    });
    let [bare, hive, bare_one, hive_one] = rates.map(median);
    let many = json!({"bare": bare, "hive": hive, "ratio": ratio_many});
    println!(
        "{}",
        json!({"own_connections": many, "one_connection": {"bare": bare_one, "hive": hive_one, "ratio": ratio_one}, "kernel": of_kernel})
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(folder.path().to_owned(), std::env::args_os().nth(1).map(PathBuf::from)))
}
