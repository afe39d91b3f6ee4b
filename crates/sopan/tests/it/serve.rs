//! `sopan serve`: the real program between real sockets, where it takes sockets, signals, processes or threads to see it.

mod admin;
mod clients;
mod door;
mod wire;

mod faults;
mod passing;
mod timed;
mod tls;
