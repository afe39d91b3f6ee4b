//! What a language model behind an API in OpenAI's form would say: the last message again, so that answers can be told apart.
//!
//! A request in, an answer out, whole or as events. Who may ask and when is the API's.

use std::collections::VecDeque;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::json::line;

/// Where a model is asked.
pub(crate) const COMPLETIONS_PATH: &str = "/v1/chat/completions";
/// Where the models are listed.
pub(crate) const MODELS_PATH: &str = "/v1/models";

/// The model that is listed. Any other answers too.
const MODEL: &str = "toko-1";
/// 2026-01-01T00:00:00Z.
const MODEL_CREATED: u64 = 1_767_225_600;

/// So many words of a message are said again; each becomes an event of some 150 bytes.
const WORDS_MAX: usize = 1000;

/// What stands before the message that is said again.
const ECHO: &str = "Anda berkata:";

/// What was asked, of which nothing else counts.
#[derive(Debug, Deserialize)]
struct Request {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
}

#[derive(Debug, Deserialize)]
struct Message {
    #[serde(default)]
    content: Content,
}

/// A text, or parts of which some are texts, or nothing (as after a call of a tool).
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
    #[default]
    Nothing,
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

impl Message {
    fn text(&self) -> String {
        match &self.content {
            Content::Text(text) => text.clone(),
            Content::Parts(parts) => parts.iter().map(|part| part.text.as_str()).collect(),
            Content::Nothing => String::new(),
        }
    }
}

/// What is answered.
#[derive(Debug)]
pub(crate) struct Completion {
    id: String,
    created: u64,
    model: String,
    words: Vec<String>,
    usage: Value,
    /// As events, and whether the last one before the end tells the usage.
    stream: Option<bool>,
}

/// The answer in the form that was asked for.
#[derive(Debug)]
pub(crate) enum Form {
    Whole(Value),
    Events(VecDeque<Bytes>),
}

impl Completion {
    /// The answer number `number`, at `created` seconds since the Unix epoch; none where the body is no request.
    pub(crate) fn of(body: &[u8], number: u64, created: u64) -> Option<Self> {
        let request: Request = serde_json::from_slice(body).ok()?;
        let last = request.messages.last()?.text();
        let words: Vec<_> = ECHO.split(' ').chain(last.split_whitespace().take(WORDS_MAX)).map(str::to_owned).collect();
        // A word is a token: near enough for a bill that nobody pays.
        let prompt: usize = request.messages.iter().map(|message| message.text().split_whitespace().count()).sum();
        let usage = json!({
            "prompt_tokens": prompt,
            "completion_tokens": words.len(),
            "total_tokens": prompt + words.len(),
        });
        let with_usage = request.stream_options.is_some_and(|options| options.include_usage);
        let stream = request.stream.then_some(with_usage);
        Some(Self { id: format!("chatcmpl-{number:06}"), created, model: request.model, words, usage, stream })
    }

    pub(crate) fn form(&self) -> Form {
        match self.stream {
            None => Form::Whole(self.whole()),
            Some(with_usage) => Form::Events(self.events(with_usage)),
        }
    }

    fn whole(&self) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": self.words.join(" ")},
                "finish_reason": "stop",
            }],
            "usage": self.usage,
        })
    }

    /// Who speaks, word by word what is said, that it is over.
    fn events(&self, with_usage: bool) -> VecDeque<Bytes> {
        let choice =
            |delta: Value, finish: Option<&str>| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        let mut events = VecDeque::from([self.event(&choice(json!({"role": "assistant", "content": ""}), None), None)]);
        for (index, word) in self.words.iter().enumerate() {
            let text = if index == 0 { word.clone() } else { format!(" {word}") };
            events.push_back(self.event(&choice(json!({"content": text}), None), None));
        }
        events.push_back(self.event(&choice(json!({}), Some("stop")), None));
        if with_usage {
            events.push_back(self.event(&json!([]), Some(&self.usage)));
        }
        events.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
        events
    }

    fn event(&self, choices: &Value, usage: Option<&Value>) -> Bytes {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage.clone();
        }
        [b"data: ", &*line(&chunk), b"\n\n"].concat().into()
    }
}

/// The one model there is.
pub(crate) fn models() -> Value {
    let model = json!({"id": MODEL, "object": "model", "created": MODEL_CREATED, "owned_by": "tokokita"});
    json!({"object": "list", "data": [model]})
}
