//! Lines, compressed. The same lines give the same bytes: no time and no name is written.

use std::io::{BufWriter, Write};

use flate2::{Compression, GzBuilder};

use super::{Lines, SinkError};
use crate::fetch::kept::media::Media;

/// What is written at once.
const PIECE_BYTES: usize = 64 * 1024;

pub(super) fn gzip(lines: &Lines<'_>, draft: &mut Media) -> Result<(), SinkError> {
    let out = BufWriter::with_capacity(PIECE_BYTES, draft);
    let mut gzip = GzBuilder::new().mtime(0).write(out, Compression::default());
    pour(lines, &mut gzip)?;
    let done = gzip.finish().and_then(|mut out| out.flush());
    done.map_err(|e| lines.failed(e))
}

pub(super) fn zstd(lines: &Lines<'_>, draft: &mut Media) -> Result<(), SinkError> {
    let out = BufWriter::with_capacity(PIECE_BYTES, draft);
    let begun = zstd::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL).and_then(|mut zstd| {
        zstd.include_checksum(true)?;
        Ok(zstd)
    });
    let mut zstd = begun.map_err(|e| lines.failed(e))?;
    pour(lines, &mut zstd)?;
    let done = zstd.finish().and_then(|mut out| out.flush());
    done.map_err(|e| lines.failed(e))
}

fn pour(lines: &Lines<'_>, out: &mut impl Write) -> Result<(), SinkError> {
    lines.each(|_, line| {
        let written = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n"));
        written.map_err(|e| lines.failed(e))
    })
}
