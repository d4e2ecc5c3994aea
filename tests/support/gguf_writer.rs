//! Writes GGUF files, right or wrong ones.

use batchroom::model::GgmlType;

/// A GGUF file in the making. Nothing is checked: wrong files are wanted too.
#[derive(Clone)]
pub struct GgufWriter {
    pub version: u32,
    pub alignment: usize,
    pub pairs: Vec<Vec<u8>>,
    pub tensors: Vec<Tensor>,
}

#[derive(Clone)]
pub struct Tensor {
    name: String,
    dims: Vec<u64>,
    type_id: u32,
    data: Vec<u8>,
    offset: Option<u64>,
}

pub fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

impl Default for GgufWriter {
    fn default() -> Self {
        GgufWriter { version: 3, alignment: 32, pairs: Vec::new(), tensors: Vec::new() }
    }
}

impl GgufWriter {
    /// A metadata pair of any type, its value already in bytes.
    pub fn raw(&mut self, key: &str, type_id: u32, value: &[u8]) -> &mut Self {
        self.pairs.push([&string(key)[..], &type_id.to_le_bytes()[..], value].concat());
        self
    }

    pub fn u32(&mut self, key: &str, value: u32) -> &mut Self {
        self.raw(key, 4, &value.to_le_bytes())
    }

    pub fn f32(&mut self, key: &str, value: f32) -> &mut Self {
        self.raw(key, 6, &value.to_le_bytes())
    }

    pub fn bool(&mut self, key: &str, value: bool) -> &mut Self {
        self.raw(key, 7, &[u8::from(value)])
    }

    pub fn str(&mut self, key: &str, value: &str) -> &mut Self {
        self.raw(key, 8, &string(value))
    }

    pub fn strings(&mut self, key: &str, values: &[&str]) -> &mut Self {
        let mut bytes = [&8u32.to_le_bytes()[..], &(values.len() as u64).to_le_bytes()[..]].concat();
        values.iter().for_each(|value| bytes.extend(string(value)));
        self.raw(key, 9, &bytes)
    }

    pub fn tensor(&mut self, name: &str, dims: &[usize], ggml_type: GgmlType, data: Vec<u8>) -> &mut Self {
        let dims: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
        self.raw_tensor(name, &dims, ggml_type.id(), data, None)
    }

    /// A tensor whose entry says what it likes.
    pub fn raw_tensor(&mut self, name: &str, dims: &[u64], type_id: u32, data: Vec<u8>, offset: Option<u64>) -> &mut Self {
        self.tensors.push(Tensor { name: name.into(), dims: dims.to_vec(), type_id, data, offset });
        self
    }

    /// Takes a tensor out.
    pub fn without(&mut self, name: &str) -> &mut Self {
        self.tensors.retain(|tensor| tensor.name != name);
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = [&b"GGUF"[..], &self.version.to_le_bytes()[..]].concat();
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.pairs.len() as u64).to_le_bytes());
        self.pairs.iter().for_each(|pair| out.extend(pair));
        let mut data = Vec::new();
        for tensor in &self.tensors {
            data.resize(data.len().next_multiple_of(self.alignment), 0);
            out.extend(string(&tensor.name));
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            tensor.dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(tensor.type_id.to_le_bytes());
            out.extend(tensor.offset.unwrap_or(data.len() as u64).to_le_bytes());
            data.extend(&tensor.data);
        }
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend(data);
        out
    }
}
