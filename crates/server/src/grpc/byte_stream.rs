//! Streams of bytes over gRPC: what one end sends is what the other gets, as fast as that reads.

use super::service::CoreRpc;
use super::speaker::GrpcSpeaker;
use super::status;
use futures_util::stream::unfold;
use hive::tonic::{Request, Response, Status, Streaming};
use hive::{ByteStreams, ChunkStream, StreamChunk, StreamRequest};
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tree::{StreamEnd, StreamReader, StreamWriter};
use wire::table::MethodId;
use world::Pid;

impl ByteStreams for CoreRpc {
    fn open(
        self: Arc<Self>,
        request: Request<Streaming<StreamChunk>>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<ChunkStream>, Status>> + Send>> {
        Box::pin(async move {
            let speaker = GrpcSpeaker::of(&request, MethodId::StreamOpen, self.trust_pid_header)?;
            if speaker.is_operator() {
                return Err(Status::permission_denied("a stream of bytes leads from one process of the tree to another"));
            }
            let StreamRequest { peer, name, wait } = StreamRequest::of(&request)?;
            let opened = self.tree.open_stream(speaker.me()?, Pid(peer), &name, wait).await;
            let StreamEnd { reader, writer } = opened.map_err(status::status)?;
            let incoming = IncomingPieces(tokio::spawn(take_all(request.into_inner(), writer)));
            Ok(Response::new(Box::pin(unfold(OutgoingPieces::Reading(reader, incoming), next)) as ChunkStream))
        })
    }
}

/// What this end sends, on its way to the other. Ends with the answer: then the client is gone.
struct IncomingPieces(JoinHandle<Result<(), Status>>);

impl Drop for IncomingPieces {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn take_all(mut pieces: Streaming<StreamChunk>, mut writer: StreamWriter) -> Result<(), Status> {
    while let Some(piece) = pieces.message().await? {
        writer.write(piece.data).await.map_err(|broken| Status::aborted(broken.to_string()))?;
    }
    writer.finish();
    Ok(())
}

/// Where the answer to one end stands.
enum OutgoingPieces {
    Reading(StreamReader, IncomingPieces),
    /// The other end has finished, and this one has been told.
    Finished(IncomingPieces),
    Over,
}

/// The next piece for this end. An answer of gRPC that ends, ends the call: so an empty piece says that the other end has finished, and the answer ends
/// when both have.
async fn next(state: OutgoingPieces) -> Option<(Result<StreamChunk, Status>, OutgoingPieces)> {
    let failed = |status| Some((Err(status), OutgoingPieces::Over));
    match state {
        OutgoingPieces::Over => None,
        OutgoingPieces::Reading(mut reader, incoming) => match reader.next().await {
            Ok(Some(data)) => Some((Ok(StreamChunk { data }), OutgoingPieces::Reading(reader, incoming))),
            Ok(None) => Some((Ok(StreamChunk::default()), OutgoingPieces::Finished(incoming))),
            Err(broken) => failed(Status::aborted(broken.to_string())),
        },
        OutgoingPieces::Finished(mut incoming) => match (&mut incoming.0).await {
            Ok(Ok(())) => None,
            Ok(Err(status)) => failed(status),
            Err(error) => failed(Status::internal(format!("the stream ended in the middle: {error}"))),
        },
    }
}
