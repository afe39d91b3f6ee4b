//! A Chromium without a window, told what to do over its DevTools protocol.
//!
//! The protocol comes over a pair of pipes, JSON and a zero byte after it, which takes no library.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::support::{PATIENCE, Running, until};

/// As it is called here and there.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser with one page open.
pub(super) struct Browser {
    to: ChildStdin,
    from: mpsc::Receiver<Json>,
    session: Option<String>,
    /// What came unasked and was not looked at.
    events: Vec<Json>,
    asked: u64,
    _program: Running,
    _profile: TempDir,
}

impl Browser {
    /// None where there is no such program. Clocks on its pages show UTC.
    pub(super) fn start() -> Option<Self> {
        let has = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|run| run.status.success());
        let name = NAMES.into_iter().find(has)?;
        let profile = tempfile::tempdir().unwrap();
        // It reads from the third descriptor and writes to the fourth.
        let run = format!(
            "exec 3<&0 4>&1 </dev/null >/dev/null 2>&1; exec {name} --headless --no-sandbox --disable-gpu --no-first-run \
             --hide-scrollbars --disable-dev-shm-usage --remote-debugging-pipe --user-data-dir={} about:blank",
            profile.path().display()
        );
        let mut command = Command::new("sh");
        command.args(["-c", &run]).env("TZ", "UTC").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (to, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, from) = mpsc::channel();
        thread::spawn(move || {
            for message in BufReader::new(out).split(0) {
                let Ok(message) = message else { return };
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        let mut browser =
            Self { to, from, session: None, events: Vec::new(), asked: 0, _program: Running(child), _profile: profile };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", &json!({"targetId": target, "flatten": true}));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        // As if somebody sat before it.
        browser.call("Emulation.setFocusEmulationEnabled", &json!({"enabled": true}));
        Some(browser)
    }

    /// Has it do something; answers what it answers.
    #[track_caller]
    pub(super) fn call(&mut self, method: &str, params: &Json) -> Json {
        self.asked += 1;
        let mut message = json!({"id": self.asked, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let message = self.from.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no answer to {method}"));
            if message["id"] == self.asked {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// What an expression is on the page, after its promises.
    #[track_caller]
    pub(super) fn js(&mut self, expression: &str) -> Json {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", &params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer:#}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(super) fn until(&mut self, expression: &str) {
        until(|| (self.js(expression) == true).then_some(()));
    }

    pub(super) fn open(&mut self, url: &str) {
        let answer = self.call("Page.navigate", &json!({"url": url}));
        assert!(answer["errorText"].is_null(), "{answer}");
        self.until("document.readyState === 'complete'");
    }

    pub(super) fn resize(&mut self, (width, height): (u32, u32), scale: f64) {
        let params = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", &params);
    }

    /// `light` or `dark`.
    pub(super) fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// Presses and lets go of `Tab` or `Enter`.
    pub(super) fn press(&mut self, key: &str) {
        let (code, text) = if key == "Enter" { (13, "\r") } else { (9, "") };
        for kind in ["keyDown", "keyUp"] {
            let mut params = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if kind == "keyDown" && !text.is_empty() {
                params["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", &params);
        }
    }

    pub(super) fn type_in(&mut self, text: &str) {
        self.call("Input.insertText", &json!({"text": text}));
    }

    /// What was complained of in the console, policies included, since it was asked last.
    pub(super) fn complaints(&mut self) -> Vec<String> {
        // What came before this answer has been read.
        self.js("0");
        let complaint = |event: Json| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Log.entryAdded" => Some(format!("{} {}", params["entry"]["text"], params["entry"]["url"])),
                "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" => Some(params["args"].to_string()),
                _ => None,
            }
        };
        std::mem::take(&mut self.events).into_iter().filter_map(complaint).collect()
    }

    /// Draws what it shows.
    pub(super) fn draw(&mut self, path: &Path) {
        let picture = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        let mut decode = Command::new("base64");
        decode.arg("-d").stdin(Stdio::piped()).stdout(std::fs::File::create(path).unwrap());
        let mut decode = decode.spawn().unwrap();
        decode.stdin.take().unwrap().write_all(picture["data"].as_str().unwrap().as_bytes()).unwrap();
        assert!(decode.wait().unwrap().success());
    }
}
