//! How does a client fit into a stack of services?
//!
//! An [`ApiClient`] is a `tower_service::Service`: layers of tower go around it, and whoever is written for such a service takes
//! it. A request waits for its turn in its call, so that the service is always ready, and there are never two lines. An answer of
//! the API is an answer, whatever its status; an error is that there is none.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT, HOST, TRAILER};
use http::{Request, Response, Uri};
use sopan_core::headers::redact_url;
use sopan_core::queue::ClientId;
use tower_service::Service;
use url::Url;

use super::ApiClient;
use crate::body::Source;
use crate::error::Error;
use crate::exchange::{self, Answer, AnswerBody, End, Inbound};

/// Any request, its target a path or a URL beneath the address of the client. It is sent again where that is right, so a POST
/// that may have been processed is not. The fields of the client go with it but for those that it has itself. The body of the
/// answer is to be read to its end or dropped, since the request holds its place until then; one that breaks off is an error
/// of the body and not repeated.
impl Service<Request<Bytes>> for ApiClient {
    type Response = Response<AnswerBody>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let api = self.clone();
        Box::pin(async move {
            let request = api.made_ours(request)?;
            let url = api.shown(&request.uri().to_string());
            let inbound = Inbound { request, client: ClientId(0), weight: 1, interims: None, hop: None };
            let answer = exchange::call(&api.upstream, inbound).await;
            if is_of_upstream(&answer) {
                return Ok(answer.response);
            }
            match Error::of(&answer, &url) {
                Some(error) => Err(error),
                None => Ok(answer.response),
            }
        })
    }
}

impl ApiClient {
    /// The request with a path beneath our address, and our fields.
    fn made_ours(&self, request: Request<Bytes>) -> Result<Request<Source>, Error> {
        let (mut head, body) = request.into_parts();
        head.uri = self.beneath(&head.uri)?;
        for name in [HOST, CONTENT_LENGTH, EXPECT, TRAILER] {
            // They are told by how it is sent.
            head.headers.remove(name);
        }
        for name in self.fields.keys() {
            if !head.headers.contains_key(name) {
                head.headers.extend(self.fields.get_all(name).iter().map(|value| (Some(name.clone()), value.clone())));
            }
        }
        let body = if body.is_empty() { Source::Empty } else { Source::Bytes(body) };
        Ok(Request::from_parts(head, body))
    }

    fn beneath(&self, uri: &Uri) -> Result<Uri, Error> {
        if uri.authority().is_none() {
            return self.uri(&uri.to_string());
        }
        let shown = redact_url(&uri.to_string());
        let url: Url = uri.to_string().parse().map_err(|e| Error::permanent(format!("`{shown}` is not a URL: {e}")))?;
        let path = self.path(&url).map_err(|base| {
            Error::permanent(format!("`{shown}` is not beneath {base}, which is all that this client asks"))
        })?;
        self.uri(&path)
    }
}

/// Whether an answer is the API's, and not what sopan says in place of one.
fn is_of_upstream(answer: &Answer) -> bool {
    match &answer.end {
        End::Done | End::Own => true,
        End::GaveUp { failure: None, status, .. } => *status == Some(answer.response.status()),
        End::GaveUp { .. } | End::Refused(_) => false,
    }
}
