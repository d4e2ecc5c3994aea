//! A weight matrix in the form that the kernels read.

use std::ops::Range;
use std::sync::Arc;

use super::super::gguf::GgmlType;
use super::super::pool::{Pool, WorkerPanicked};
use super::buffer::{Buffer, OutOfMemory};
use super::layout::{Layout, PANEL, SUPPORTED_TYPES};
use super::repack::{repack_panel, unpack_row};

/// A matrix that cannot be repacked.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    #[error("the type {0} cannot be computed with here (supported: {SUPPORTED_TYPES})")]
    Type(GgmlType),
    #[error("rows of {k} weights are no multiple of the {unit} that {layout:?} needs")]
    RowLength { k: usize, unit: usize, layout: Layout },
    #[error("{rows} rows of {k} weights take {needed} bytes as {layout:?}, and there are {found}")]
    Size { rows: usize, k: usize, layout: Layout, needed: usize, found: usize },
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    #[error(transparent)]
    Worker(#[from] WorkerPanicked),
}

/// `rows` outputs of `k` inputs each, in panels of 16 rows.
#[derive(Clone, Debug)]
pub struct Matrix {
    layout: Layout,
    rows: usize,
    k: usize,
    panel_bytes: usize,
    buffer: Arc<Buffer>,
    place: Range<usize>,
}

impl Matrix {
    /// Repacks one matrix into memory of its own. `data` is what the file holds: row after row.
    ///
    /// # Errors
    /// When the type is not supported, the sizes do not fit together, or there is no memory.
    pub fn new(ggml_type: GgmlType, rows: usize, k: usize, data: &[u8]) -> Result<Matrix, MatrixError> {
        let mut plan = Plan::default();
        plan.add(ggml_type, rows, k, data)?;
        let pool = Pool::new(1).map_err(|source| OutOfMemory { what: "a thread", bytes: 0, source })?;
        let mut matrices = plan.repack(&pool)?;
        Ok(matrices.remove(0))
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Number of outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of inputs.
    pub fn k(&self) -> usize {
        self.k
    }

    pub fn panels(&self) -> usize {
        self.rows.div_ceil(PANEL)
    }

    pub fn panel_bytes(&self) -> usize {
        self.panel_bytes
    }

    /// Bytes in memory: what one pass reads.
    pub fn bytes(&self) -> usize {
        self.place.len()
    }

    pub(super) fn panel_range(&self, panels: Range<usize>) -> &[u8] {
        &self.buffer.bytes()[self.place.clone()][panels.start * self.panel_bytes..panels.end * self.panel_bytes]
    }

    /// Writes one output's `k` weights as floats.
    ///
    /// # Panics
    /// When there is no such row or `out` is not `k` long.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows && out.len() == self.k, "row {row} of {} into {} of {}", self.rows, out.len(), self.k);
        let panel = row / PANEL;
        unpack_row(self.layout, self.panel_range(panel..panel + 1), row % PANEL, out);
    }
}

/// Matrices to be repacked together: one memory, all threads.
#[derive(Default)]
pub struct Plan<'a> {
    entries: Vec<Entry<'a>>,
    bytes: usize,
}

struct Entry<'a> {
    ggml_type: GgmlType,
    layout: Layout,
    rows: usize,
    k: usize,
    /// As a file has them.
    row_bytes: usize,
    panel_bytes: usize,
    place: Range<usize>,
    source: Source<'a>,
}

/// Writes rows as a file would have them: called with the number of the first row and whole rows to fill. Any thread
/// may call it.
pub type MakeRows<'a> = dyn Fn(usize, &mut [u8]) + Send + Sync + 'a;

/// Where a matrix's rows come from.
enum Source<'a> {
    File(&'a [u8]),
    Made(Box<MakeRows<'a>>),
}

/// One panel's work: its first row, how many there are and of how many bytes, where they go.
struct PanelWork<'a, 'b> {
    ggml_type: GgmlType,
    source: &'a Source<'a>,
    first: usize,
    count: usize,
    row_bytes: usize,
    panel: &'b mut [u8],
}

impl PanelWork<'_, '_> {
    /// `scratch` is for rows that no file holds.
    fn repack(&mut self, scratch: &mut Vec<u8>) {
        let bytes = self.count * self.row_bytes;
        match self.source {
            Source::File(data) => {
                repack_panel(self.ggml_type, &data[self.first * self.row_bytes..][..bytes], self.count, self.panel);
            }
            Source::Made(make) => {
                scratch.resize(bytes, 0);
                make(self.first, scratch);
                repack_panel(self.ggml_type, scratch, self.count, self.panel);
            }
        }
    }
}

/// Sizes of a matrix, checked.
struct Sizes {
    layout: Layout,
    row_bytes: usize,
    panel_bytes: usize,
}

fn sizes(ggml_type: GgmlType, rows: usize, k: usize) -> Result<Sizes, MatrixError> {
    let layout = Layout::of(ggml_type).ok_or(MatrixError::Type(ggml_type))?;
    let unit = layout.unit();
    if k == 0 || rows == 0 || !k.is_multiple_of(unit) {
        return Err(MatrixError::RowLength { k, unit, layout });
    }
    let row_bytes = k / ggml_type.block_elements() * ggml_type.block_bytes();
    Ok(Sizes { layout, row_bytes, panel_bytes: k / unit * layout.unit_bytes() })
}

impl<'a> Plan<'a> {
    /// Adds a matrix. Matrices come out of [`Plan::repack`] in this order.
    ///
    /// # Errors
    /// When the type is not supported or the sizes do not fit together.
    pub fn add(&mut self, ggml_type: GgmlType, rows: usize, k: usize, data: &'a [u8]) -> Result<(), MatrixError> {
        let Sizes { layout, row_bytes, .. } = sizes(ggml_type, rows, k)?;
        let needed = row_bytes.saturating_mul(rows);
        if data.len() != needed {
            return Err(MatrixError::Size { rows, k, layout, needed, found: data.len() });
        }
        self.add_from(ggml_type, rows, k, Source::File(data))
    }

    /// Adds a matrix whose rows are in no file: `make` writes them, a panel's rows at a time.
    ///
    /// # Errors
    /// When the type is not supported or the sizes do not fit together.
    pub fn add_made(&mut self, ggml_type: GgmlType, rows: usize, k: usize, make: Box<MakeRows<'a>>) -> Result<(), MatrixError> {
        self.add_from(ggml_type, rows, k, Source::Made(make))
    }

    fn add_from(&mut self, ggml_type: GgmlType, rows: usize, k: usize, source: Source<'a>) -> Result<(), MatrixError> {
        let Sizes { layout, row_bytes, panel_bytes } = sizes(ggml_type, rows, k)?;
        let begin = self.bytes.next_multiple_of(64);
        let place = begin..begin + rows.div_ceil(PANEL) * panel_bytes;
        self.bytes = place.end;
        self.entries.push(Entry { ggml_type, layout, rows, k, row_bytes, panel_bytes, place, source });
        Ok(())
    }

    /// Bytes that all matrices added so far will take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Repacks all, panel by panel on all threads.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn repack(self, pool: &Pool) -> Result<Vec<Matrix>, MatrixError> {
        let mut buffer = Buffer::zeroed(self.bytes, "the weights")?.in_large_pages();
        let mut rest = buffer.bytes_mut();
        let mut begin = 0;
        let mut work = Vec::new();
        for entry in &self.entries {
            let (place, after) = std::mem::take(&mut rest).split_at_mut(entry.place.end - begin);
            rest = after;
            let panels = place[entry.place.start - begin..].chunks_exact_mut(entry.panel_bytes);
            begin = entry.place.end;
            let (ggml_type, source, row_bytes) = (entry.ggml_type, &entry.source, entry.row_bytes);
            work.extend(panels.enumerate().map(|(index, panel)| {
                let first = index * PANEL;
                PanelWork { ggml_type, source, first, count: (entry.rows - first).min(PANEL), row_bytes, panel }
            }));
        }
        let mut scratch = vec![Vec::new(); pool.threads()];
        pool.chunks_with(&mut work, 1, &mut scratch, |_, work, scratch| work[0].repack(scratch))?;
        drop(work);
        let buffer = Arc::new(buffer);
        let matrix = |entry: Entry<'_>| Matrix {
            layout: entry.layout,
            rows: entry.rows,
            k: entry.k,
            panel_bytes: entry.panel_bytes,
            buffer: Arc::clone(&buffer),
            place: entry.place,
        };
        Ok(self.entries.into_iter().map(matrix).collect())
    }
}
