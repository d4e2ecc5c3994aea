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
    panel_bytes: usize,
    place: Range<usize>,
    data: &'a [u8],
}

/// One panel's work: rows as the file has them, where they go, and how many they are.
struct PanelWork<'a, 'b> {
    ggml_type: GgmlType,
    rows: &'a [u8],
    count: usize,
    panel: &'b mut [u8],
}

impl<'a> Plan<'a> {
    /// Adds a matrix. Matrices come out of [`Plan::repack`] in this order.
    ///
    /// # Errors
    /// When the type is not supported or the sizes do not fit together.
    pub fn add(&mut self, ggml_type: GgmlType, rows: usize, k: usize, data: &'a [u8]) -> Result<(), MatrixError> {
        let layout = Layout::of(ggml_type).ok_or(MatrixError::Type(ggml_type))?;
        let unit = layout.unit();
        if k == 0 || rows == 0 || !k.is_multiple_of(unit) {
            return Err(MatrixError::RowLength { k, unit, layout });
        }
        let row_bytes = k / ggml_type.block_elements() * ggml_type.block_bytes();
        let needed = row_bytes.saturating_mul(rows);
        if data.len() != needed {
            return Err(MatrixError::Size { rows, k, layout, needed, found: data.len() });
        }
        let panel_bytes = k / unit * layout.unit_bytes();
        let begin = self.bytes.next_multiple_of(64);
        let place = begin..begin + rows.div_ceil(PANEL) * panel_bytes;
        self.bytes = place.end;
        self.entries.push(Entry { ggml_type, layout, rows, k, panel_bytes, place, data });
        Ok(())
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
            let row_bytes = entry.data.len() / entry.rows;
            let rows = entry.data.chunks(row_bytes * PANEL);
            let ggml_type = entry.ggml_type;
            work.extend(rows.zip(panels).map(|(rows, panel)| PanelWork {
                ggml_type,
                rows,
                count: rows.len() / row_bytes,
                panel,
            }));
        }
        pool.chunks(&mut work, 1, |_, work| {
            for work in work {
                repack_panel(work.ggml_type, work.rows, work.count, work.panel);
            }
        })?;
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
