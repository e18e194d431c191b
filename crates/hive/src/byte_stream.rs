//! Streams of bytes between two processes: a method of ours beside HiveKernel's contract, on the same listeners.
//!
//! `/skep.tree.ByteStreams/Open` takes and gives messages of one field, `bytes data = 1` (as `google.protobuf.BytesValue` has it), for as long as both ends
//! want; an empty one from the kernel says that the other end has finished. Whom it leads to and what both call it are headers. **Invariant.** What a peer sends ahead is bounded by its window and one piece.

use crate::generated::core::core_service_server::{CoreService, CoreServiceServer};
use crate::limits::ServeLimits;
use crate::serve::{GrpcRequestBody, core_service};
use bytes::Bytes;
use futures_util::Stream;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::codegen::http;
use tonic::server::{Grpc, StreamingService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

/// The method, by its path.
pub const BYTE_STREAM_PATH: &str = "/skep.tree.ByteStreams/Open";
/// Headers: the pid of the other end, what both call it, and how long the first one waits for the other, in seconds.
pub const PEER_HEADER: &str = "x-skep-peer";
pub const STREAM_HEADER: &str = "x-skep-stream";
pub const WAIT_HEADER: &str = "x-skep-wait";
/// Bytes of one piece, and of what its message has around it.
const CHUNK_BYTES_MAX: usize = 64 * 1024;
const MESSAGE_MARGIN: usize = 16;

/// A piece of a stream.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StreamChunk {
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
}

/// The pieces that one end gets.
pub type ChunkStream = Pin<Box<dyn Stream<Item = Result<StreamChunk, Status>> + Send>>;
type OpenFuture = Pin<Box<dyn Future<Output = Result<Response<ChunkStream>, Status>> + Send>>;

/// Opens streams for whoever calls.
pub trait ByteStreams: Send + Sync + 'static {
    fn open(self: Arc<Self>, request: Request<Streaming<StreamChunk>>) -> OpenFuture;
}

/// Whom a request to open a stream leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRequest {
    pub peer: u64,
    pub name: String,
    pub wait: Option<Duration>,
}

impl StreamRequest {
    pub fn of<T>(request: &Request<T>) -> Result<StreamRequest, Status> {
        let header = |name: &'static str| match request.metadata().get(name) {
            None => Ok(None),
            Some(value) => value.to_str().map(Some).map_err(|_| Status::invalid_argument(format!("{name} is no text"))),
        };
        let number = |name: &'static str, text: &str| {
            text.parse::<u64>().map_err(|_| Status::invalid_argument(format!("{name} is no number: {text}")))
        };
        let peer = header(PEER_HEADER)?.ok_or_else(|| Status::invalid_argument(format!("missing {PEER_HEADER}")))?;
        let name = header(STREAM_HEADER)?.ok_or_else(|| Status::invalid_argument(format!("missing {STREAM_HEADER}")))?;
        let wait = header(WAIT_HEADER)?.map(|text| number(WAIT_HEADER, text)).transpose()?;
        Ok(StreamRequest { peer: number(PEER_HEADER, peer)?, name: name.to_owned(), wait: wait.map(Duration::from_secs) })
    }
}

/// The kernel's service, and streams of bytes beside it.
pub struct TreeServices<T, S> {
    core: CoreServiceServer<T>,
    streams: Arc<S>,
}

impl<T, S> Clone for TreeServices<T, S> {
    fn clone(&self) -> TreeServices<T, S> {
        TreeServices { core: self.core.clone(), streams: Arc::clone(&self.streams) }
    }
}

/// Both services, within the bounds of their listener.
pub fn tree_services<T: CoreService, S: ByteStreams>(core: Arc<T>, streams: Arc<S>, limits: &ServeLimits) -> TreeServices<T, S> {
    TreeServices { core: core_service(core, limits), streams }
}

impl<T: CoreService, S: ByteStreams> tower_service::Service<http::Request<GrpcRequestBody>> for TreeServices<T, S> {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<GrpcRequestBody>) -> Self::Future {
        if request.uri().path() != BYTE_STREAM_PATH {
            return self.core.call(request);
        }
        let streams = Arc::clone(&self.streams);
        Box::pin(async move {
            let max = Some(CHUNK_BYTES_MAX + MESSAGE_MARGIN);
            let mut grpc = Grpc::new(ProstCodec::<StreamChunk, StreamChunk>::default()).apply_max_message_size_config(max, max);
            Ok(grpc.streaming(OpenStream(streams), request).await)
        })
    }
}

/// The one method of [`ByteStreams`].
struct OpenStream<S>(Arc<S>);

impl<S: ByteStreams> StreamingService<StreamChunk> for OpenStream<S> {
    type Response = StreamChunk;
    type ResponseStream = ChunkStream;
    type Future = OpenFuture;

    fn call(&mut self, request: Request<Streaming<StreamChunk>>) -> OpenFuture {
        Arc::clone(&self.0).open(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_say_whom_it_leads_to() {
        let read = |headers: &[(&'static str, &str)]| {
            let mut request = Request::new(());
            for (name, value) in headers {
                request.metadata_mut().insert(*name, value.parse().unwrap());
            }
            StreamRequest::of(&request).map_err(|status| status.message().to_owned())
        };
        let whole = read(&[(PEER_HEADER, "7"), (STREAM_HEADER, "data"), (WAIT_HEADER, "5")]);
        assert_eq!(whole, Ok(StreamRequest { peer: 7, name: "data".into(), wait: Some(Duration::from_secs(5)) }));
        assert_eq!(read(&[(STREAM_HEADER, "data")]), Err("missing x-skep-peer".to_owned()));
        assert_eq!(read(&[(PEER_HEADER, "7")]), Err("missing x-skep-stream".to_owned()));
        assert_eq!(read(&[(PEER_HEADER, "-7"), (STREAM_HEADER, "x")]), Err("x-skep-peer is no number: -7".to_owned()));
    }
}
