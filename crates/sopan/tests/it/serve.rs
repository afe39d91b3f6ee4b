//! `sopan serve`: the real program between real sockets, where it takes sockets, signals, processes or threads to see it.

mod admin;
mod cache;
mod clients;
mod common;
mod conformance;
mod credential;
mod dashboard;
mod deploy;
mod door;
mod wire;

mod bounds;
mod documented;
mod faults;
mod fields;
mod instances;
mod interims;
mod keys;
mod manager;
mod mutations;
mod observe;
mod operating;
mod passing;
mod refusing;
mod secrets;
mod switching;
mod timed;
mod tls;
mod traces;
