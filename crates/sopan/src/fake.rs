//! The fake rate-limited API, to try sopan or any other client on.

use std::io::{self, Write};
use std::net::SocketAddr;

use anyhow::Context;
use sopan_fake::FakeApi;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::config;
use crate::serve::cannot_listen;

/// Serves until SIGINT or SIGTERM.
///
/// # Errors
/// The port cannot be listened on, or the machine is out of something; nothing was started then.
pub(crate) fn run(settings: config::Fake) -> anyhow::Result<()> {
    let config::Fake { listen, settings } = settings;
    let runtime = runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await;
        let listener = listener.map_err(|error| cannot_listen("--listen", listen, &error))?;
        // Taken before the address is told, so that whoever reads it can stop us.
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        announce(listener.local_addr()?);
        let stop = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        FakeApi::new(settings).serve(listener, stop).await;
        Ok(())
    })
}

/// Tells where it listens, for people and for the scripts that read it.
fn announce(address: SocketAddr) {
    let mut out = io::stdout().lock();
    // Nobody need listen.
    let _ = writeln!(out, "listening on http://{address}").and_then(|()| out.flush());
}
