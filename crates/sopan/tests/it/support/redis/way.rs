//! A way to a server on which packets can be lost.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

pub(crate) struct Way {
    pub(crate) address: SocketAddr,
    loses: Arc<AtomicBool>,
}

impl Way {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, loses) = (listener.local_addr().unwrap(), Arc::<AtomicBool>::default());
        let lost = Arc::clone(&loses);
        // It ends with the test's process.
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                let Ok(far) = TcpStream::connect(server) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    to.set_nodelay(true).unwrap();
                    let (from, to, lost) = (from.try_clone().unwrap(), to.try_clone().unwrap(), Arc::clone(&lost));
                    thread::spawn(move || carry(from, to, &lost));
                }
            }
        });
        Self { address, loses }
    }

    /// Whether all that is sent from now on is lost, in both directions. Connections stay open.
    pub(crate) fn lose(&self, loses: bool) {
        self.loses.store(loses, Relaxed);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, loses: &AtomicBool) {
    let mut piece = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        if !loses.load(Relaxed) && to.write_all(&piece[..read]).is_err() {
            break;
        }
    }
    for socket in [from, to] {
        let _ = socket.shutdown(Shutdown::Both);
    }
}
