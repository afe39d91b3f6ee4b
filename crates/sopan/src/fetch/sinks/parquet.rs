//! A Parquet file: a column for each field, compressed with Zstandard.
//!
//! Rows are gathered until they take some MiB, then written as a group, so that memory does not grow with their number.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types;

use super::columns::{Cell, Column, Columns, Type};
use super::{Lines, SinkError};
use crate::fetch::kept::media::Media;

/// What a group of rows takes in memory before it is written.
const GROUP_BYTES: usize = 16 << 20;

pub(super) fn write(lines: &Lines<'_>, draft: &mut Media) -> Result<(), SinkError> {
    write_in_groups(lines, draft, GROUP_BYTES)
}

pub(super) fn write_in_groups(lines: &Lines<'_>, draft: &mut Media, group_bytes: usize) -> Result<(), SinkError> {
    let columns = Columns::of(lines)?.at_least_one();
    let failed = |e: ParquetError| lines.failed(io::Error::other(e));
    let schema = schema(&columns.all).map_err(failed)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let mut file = SerializedFileWriter::new(draft, Arc::new(schema), Arc::new(properties)).map_err(failed)?;
    let mut group: Vec<Chunk> = columns.all.iter().map(|column| Chunk::new(column.kind)).collect();
    let mut bytes = 0;
    lines.each(|number, line| {
        let mut cells = Vec::new();
        let read = columns.cells(line, &mut cells);
        read.map_err(|e| lines.misfit(number, format!("it cannot be read: {e}")))?;
        bytes += group.iter_mut().zip(cells).map(|(chunk, cell)| chunk.add(cell)).sum::<usize>();
        if bytes >= group_bytes {
            bytes = 0;
            flush(&mut file, &mut group).map_err(failed)?;
        }
        Ok(())
    })?;
    if bytes > 0 {
        flush(&mut file, &mut group).map_err(failed)?;
    }
    file.close().map(drop).map_err(failed)
}

fn schema(columns: &[Column]) -> Result<types::Type, ParquetError> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            Type::Boolean => (Physical::BOOLEAN, None),
            Type::Integer => (Physical::INT64, None),
            Type::Double => (Physical::DOUBLE, None),
            Type::Digits | Type::Text | Type::Json | Type::Nothing => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = types::Type::primitive_type_builder(&column.name, physical);
        field.with_repetition(Repetition::OPTIONAL).with_logical_type(logical).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    types::Type::group_type_builder("records").with_fields(fields).build()
}

/// What a group has of one column.
#[derive(Debug)]
struct Chunk {
    values: Values,
    /// For each row 1 if there is something, else 0.
    levels: Vec<i16>,
}

#[derive(Debug)]
enum Values {
    Booleans(Vec<bool>),
    Integers(Vec<i64>),
    Doubles(Vec<f64>),
    /// One after the other, and where each of them is.
    Texts(Vec<u8>, Vec<Range<usize>>),
}

impl Chunk {
    fn new(kind: Type) -> Self {
        let values = match kind {
            Type::Boolean => Values::Booleans(Vec::new()),
            Type::Integer => Values::Integers(Vec::new()),
            Type::Double => Values::Doubles(Vec::new()),
            Type::Digits | Type::Text | Type::Json | Type::Nothing => Values::Texts(Vec::new(), Vec::new()),
        };
        Self { values, levels: Vec::new() }
    }

    /// Adds a value of the column's type, and tells what it takes.
    fn add(&mut self, cell: Cell<'_>) -> usize {
        let is_there = match (&mut self.values, cell) {
            (Values::Booleans(all), Cell::Boolean(value)) => {
                all.push(value);
                true
            }
            (Values::Integers(all), Cell::Integer(value)) => {
                all.push(value);
                true
            }
            (Values::Doubles(all), Cell::Double(value)) => {
                all.push(value);
                true
            }
            (Values::Texts(all, places), Cell::Text(text)) => {
                let begin = all.len();
                all.extend_from_slice(text.as_bytes());
                places.push(begin..all.len());
                // That takes a text in the library too.
                self.levels.push(1);
                return text.len() + 2 + 2 * size_of::<ByteArray>();
            }
            _ => false,
        };
        self.levels.push(i16::from(is_there));
        2 + usize::from(is_there) * 8
    }
}

type File<'a> = SerializedFileWriter<&'a mut Media>;

/// Writes a group, and begins another.
fn flush(file: &mut File<'_>, group: &mut [Chunk]) -> Result<(), ParquetError> {
    let mut out = file.next_row_group()?;
    for chunk in group {
        let Some(mut column) = out.next_column()? else { break };
        let levels = std::mem::take(&mut chunk.levels);
        match &mut chunk.values {
            Values::Booleans(all) => put::<BoolType>(&mut column, std::mem::take(all), &levels)?,
            Values::Integers(all) => put::<Int64Type>(&mut column, std::mem::take(all), &levels)?,
            Values::Doubles(all) => put::<DoubleType>(&mut column, std::mem::take(all), &levels)?,
            Values::Texts(all, places) => {
                let all = Bytes::from(std::mem::take(all));
                let texts = places.drain(..).map(|place| ByteArray::from(all.slice(place))).collect();
                put::<ByteArrayType>(&mut column, texts, &levels)?;
            }
        }
        column.close()?;
    }
    out.close().map(drop)
}

#[expect(clippy::needless_pass_by_value, reason = "it is not kept longer than that")]
fn put<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    values: Vec<T::T>,
    levels: &[i16],
) -> Result<(), ParquetError> {
    column.typed::<T>().write_batch(&values, Some(levels), None).map(drop)
}
