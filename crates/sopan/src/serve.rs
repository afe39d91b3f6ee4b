//! The proxy's listener: a place for the accept loop, connections and drain.

use std::sync::Arc;

use anyhow::Context;
use sopan_engine::{Surroundings, Upstream};
use tokio::net::TcpListener;

use crate::{admin, config};

/// Starts the upstream and the admin side and serves that alone until SIGINT.
///
/// # Errors
/// What keeps it from starting.
pub(crate) fn run(settings: config::Serve, metrics: Arc<admin::Metrics>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(settings.listen)
            .await
            .with_context(|| format!("--listen: `{}` cannot be listened on", settings.listen))?;
        let around = Surroundings { observer: Arc::clone(&metrics) as _, ..Surroundings::default() };
        let (upstream, background) = Upstream::start(settings.upstream.clone(), around)?;
        tokio::spawn(background);
        metrics.watch(Arc::downgrade(&upstream), settings.limits());
        tracing::info!("{}", settings.summary(listener.local_addr()?));
        let stop = async {
            let _ = tokio::signal::ctrl_c().await;
        };
        match settings.admin {
            Some(admin) => admin::serve(TcpListener::bind(admin).await?, metrics, stop).await,
            None => stop.await,
        }
        let config::Serve { client_by, header_timeout, idle_timeout, drain, max_connections, workers, .. } = settings;
        let client_by: config::ClientBy = client_by;
        let later = (client_by, header_timeout, idle_timeout, drain, max_connections, workers);
        tracing::debug!("not used yet: {later:?}");
        Ok(())
    })
}
